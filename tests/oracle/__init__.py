"""An independent judge of kernels: the same .cu file compiled as C++ for the host. See driver.py."""
