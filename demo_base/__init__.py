"""A small base model to show the whole path with: trained here, on questions about small vectors and matrices."""
