"""Engine `transformers`: a checkpoint run by the stock library, token by token or as a check of a whole trace."""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.weights_backend.checkpoint import FORMAT, SPEC_FILE, StatePlace
from toolchain.weights_backend.numerics import STATE_UNIT

CHUNK = 512
"""Tokens of one forward pass in prefill."""


def checkpoint_spec(directory: Path) -> tuple[MachineSpec, StatePlace]:
    """The machine a checkpoint holds. Raises CompileError where the folder is not one of this toolchain's."""
    path = directory / SPEC_FILE
    try:
        table = json.loads(path.read_text())
        if table["format"] != FORMAT:
            raise CompileError(
                f"'{directory}' has checkpoint format {table['format']}; this version reads {FORMAT}"
            )
        machine = {field.name: table["machine"][field.name] for field in fields(MachineSpec)}
        return MachineSpec(**machine), StatePlace(**table["memory"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CompileError(
            f"'{directory}' is not a checkpoint of this toolchain: {SPEC_FILE} is missing or damaged",
            hint="make one with: qgpuc build --machine classic -o DIR",
        ) from error


class TransformersEngine:
    """A loaded checkpoint. One conversation at a time: `decode` and `prefill_check` start anew.

    `model`: the stock model of the folder's circuit layers, where that is loaded already (runtime/merged.py).
    """

    def __init__(self, directory: Path, model: Any = None) -> None:
        self.spec, self._place = checkpoint_spec(directory)
        self._model = load_model(directory) if model is None else model
        self._cache = None

    def decode(
        self, load: Sequence[int], limit: int, on_token: Callable[[int], None] | None = None
    ) -> list[int]:
        """Greedy decoding after `load`, up to the end token or `limit` tokens."""
        import torch

        end = self._model.config.eos_token_id
        launch: list[int] = []
        with torch.inference_mode():
            logits = self._prefill(load)[-1:]
            while len(launch) < limit:
                token = int(logits[-1].argmax())
                launch.append(token)
                if on_token is not None:
                    on_token(token)
                if token == end:
                    break
                logits = self._forward([token])
        return launch

    def prefill_check(self, load: Sequence[int], launch: Sequence[int]) -> int | None:
        """Index of the first token of `launch` that the model would not say, None if it says them all.

        By induction this is greedy decoding: each token is the argmax after exactly the tokens before it.
        """
        import torch

        with torch.inference_mode():
            said = self._prefill([*load, *launch[:-1]], keep=len(launch))
        for index, (token, row) in enumerate(zip(launch, said, strict=True)):
            if int(row.argmax()) != token:
                return index
        return None

    def said(self, load: Sequence[int], launch: Sequence[int]) -> list[int]:
        """What the model says at each place of `launch`, given the tokens before it."""
        import torch

        with torch.inference_mode():
            return [int(row.argmax()) for row in self._prefill([*load, *launch[:-1]], keep=len(launch))]

    def parameters(self):
        """The model's tensors by name."""
        return dict(self._model.named_parameters())

    def memory(self) -> tuple[int, ...]:
        """Global memory as the recurrent state holds it after the last token."""
        assert self._cache is not None
        states = self._cache.get_recurrent_state(self._place.layer)
        assert states is not None
        rows = states[0, self._place.head, : self.spec.memory_words].float().cpu()
        bits = (rows[:, list(self._place.bits)].sum(dim=2) > STATE_UNIT / 2).long()
        return tuple(int(sum(int(bit) << i for i, bit in enumerate(row))) for row in bits)

    def _prefill(self, tokens: Sequence[int], keep: int = 1):
        """Logits of the last `keep` positions, from an empty cache."""
        import torch
        from transformers import DynamicCache

        self._cache = DynamicCache(config=self._model.config)
        rows = []
        for start in range(0, len(tokens), CHUNK):
            part = tokens[start : start + CHUNK]
            wanted = max(0, start + len(part) - max(start, len(tokens) - keep))
            logits = self._forward(part, max(wanted, 1))
            if wanted:
                rows.append(logits[-wanted:])
        return torch.cat(rows)

    def _forward(self, tokens: Sequence[int], keep: int = 1):
        import torch

        ids = torch.tensor([list(tokens)], device=self._model.device)
        output = self._model(input_ids=ids, cache=self._cache, use_cache=True, logits_to_keep=keep)
        return output.logits[0]


def load_model(directory: Path):
    """The folder as the stock library loads it. Raises CompileError where it does not."""
    import torch
    import transformers
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(directory, dtype="auto", local_files_only=True)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CompileError(
            f"cannot load the checkpoint '{directory}': {reason}", hint="build it again"
        ) from error
    if any(parameter.device.type == "meta" for parameter in model.parameters()):
        raise CompileError(f"the checkpoint '{directory}' lacks some tensors", hint="build it again")
    if torch.cuda.is_available():
        torch.nn.Module.cuda(model)
    return model.eval()
