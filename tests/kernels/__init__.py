"""The kernels of the test suite: one CUDA file each, and `cases.py` with launches and numpy references."""
