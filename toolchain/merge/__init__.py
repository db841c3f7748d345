"""A machine's circuit layers in front of a base model's own (docs/MERGE.md)."""
