"""Measurements that need the source tree: `qgpuc bench`."""
