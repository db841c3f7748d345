"""Engine `sparse`: a checkpoint's tensors compiled to integer arithmetic on what is nonzero in them."""
