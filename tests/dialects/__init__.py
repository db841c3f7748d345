"""PTX in the manner of each compiler, written for these tests, and what it computes."""
