"""The tests. Run them with `make test`."""
