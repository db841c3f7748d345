"""The test kernels on NVIDIA hardware: a script that runs them there, and what it found."""
