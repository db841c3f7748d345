"""Undefined behaviour of a launch, found on the PTX interpreter: `sanitize` in sanitizer.py."""
