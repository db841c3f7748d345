"""Greedy decoding by the stock model in a static cache: a step reads and writes the same tensors every time.

So the step can be captured as a CUDA graph, or compiled; uncaptured it is the same code on any device. Position ids do
not matter to a machine's layers, whose closing attention layer adds nothing; the step's own stay where they are.
"""

from collections.abc import Callable, Sequence
from typing import Any

WARM_UP = 3
"""Steps on a side stream before a capture, as CUDA graphs want it (PyTorch documentation, "CUDA Graphs")."""
Step = Callable[[], None]


class StaticDecoder:
    """`batch` launches of one program side by side. `forward` is the model, or what torch.compile makes of it."""

    def __init__(
        self, model: Any, longest: int, batch: int, forward: Callable[..., Any] | None = None
    ) -> None:
        """`longest`: tokens of a load and its launch at most."""
        import torch
        from transformers import StaticCache

        self.model, self.batch = model, batch
        self.cache = StaticCache(config=model.config, max_cache_len=longest)
        self.tokens = torch.zeros(batch, 1, dtype=torch.long, device=model.device)
        self._positions = torch.zeros(batch, 1, dtype=torch.long, device=model.device)
        self._forward = model if forward is None else forward
        self._step: Step = self._eager

    def capture(self, load: Sequence[int]) -> None:
        """Makes the step a CUDA graph. The cache is filled from `load` for that, and is to be filled again."""
        import torch

        self.prefill(load)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.inference_mode():
            for _ in range(WARM_UP):
                self._eager()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph):
            self._eager()
        self._step = graph.replay

    def prefill(self, load: Sequence[int], chunk: int = 512) -> None:
        """Empties the cache and feeds every launch the same tokens; then `tokens` holds what each says first."""
        import torch

        ids = torch.tensor([list(load)], device=self.model.device).expand(self.batch, -1)
        with torch.inference_mode():
            self.cache.reset()
            for part in ids.split(chunk, dim=1):
                logits = self.model(input_ids=part, cache=self.cache, use_cache=True, logits_to_keep=1).logits
                self.tokens.copy_(logits[:, -1:].argmax(dim=-1))

    def decode(self, count: int) -> list[list[int]]:
        """The next `count` tokens of each launch, the first being there already; what follows an end is as it comes."""
        import torch

        said = [self.tokens.clone()]
        with torch.inference_mode():
            for _ in range(count - 1):
                self._step()
                said.append(self.tokens.clone())
        return torch.cat(said, dim=1).tolist()

    def _eager(self) -> None:
        logits = self._forward(
            input_ids=self.tokens, position_ids=self._positions, cache=self.cache, use_cache=True
        ).logits
        self.tokens.copy_(logits[:, -1:].argmax(dim=-1))
