"""Chat with a model that has a machine in it: expressions, their kernels, the conversation (docs/CHAT.md)."""
