"""Random CUDA kernels whose results are defined, and the comparison of every level with the oracle.

tape.py         a source of random choices that can be recorded, replayed and shrunk
expressions.py  expressions, statements.py  statements, kernels.py  kernels and their launches
judge.py        what became of a kernel: right, refused, wrong, crash
"""
