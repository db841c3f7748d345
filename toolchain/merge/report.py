"""What a merge says of itself: a report for machines, one for people, and the model card."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from runtime.vocabulary import Vocabulary
from toolchain.merge.base import Base
from toolchain.merge.design import Design, Mode
from toolchain.merge.readout import Readout
from toolchain.merge.silence import HalfLayer
from toolchain.merge.silence_run import SilenceRun
from toolchain.merge.text_bias import TextBias

REPORT_FILE = "merge_report.json"
REPORT_TEXT = "merge_report.txt"
CARD_FILE = "README.md"


@dataclass(frozen=True)
class MergeReport:
    """A finished merge. `identical` tensors of the base are in it byte for byte, `changed` are named."""

    design: Design
    base: Base
    note: str
    half_layers: tuple[HalfLayer, ...]
    runs: tuple[SilenceRun, ...]
    readout: Readout
    bias: TextBias
    identical: int
    changed: tuple[str, ...]
    size: int

    @property
    def narrowest(self) -> HalfLayer | None:
        """The half-layer with the smallest margin; None in a widened model, where circuits read zeros on text."""
        return min(self.half_layers, key=lambda half: half.cosine, default=None)

    def summary(self) -> list[str]:
        """The report in a few lines."""
        old, new = self.design.base_shape, self.design.shape
        tensors = self.identical + len(self.changed)
        lines = [
            f"mode       {self.design.mode}" + (f" (not in place: {self.note})" if self.note else ""),
            f"layers     {self.design.layers} circuit layers, then the base's {len(self.base.layer_types)}",
            f"hidden     {old.hidden}" + ("" if old.hidden == new.hidden else f" -> {new.hidden}"),
            f"padding    {', '.join(self.design.padded) or 'none: every layer of the base keeps its shapes'}",
            f"base       {self.identical} of {tensors} tensors byte for byte"
            + (
                ", the embedding's and the output's rows among them"
                if self.design.mode is Mode.IN_PLACE
                else ""
            ),
            f"tokens     {self.base.vocabulary} of text, then {Vocabulary(self.design.spec).size} of the machine",
        ]
        narrowest = self.narrowest
        if narrowest is None:
            lines.append(
                "silence    by construction: text rows are zero on every dimension that a circuit reads"
            )
        else:
            lines.append(
                f"silence    proved for every text token; smallest cosine {narrowest.cosine:.4f}, "
                f"token {narrowest.token}, {narrowest.name}"
            )
        lines += [f"           {run.line()}" for run in self.runs]
        lines += [f"read-out   {line}" for line in self.readout.lines()]
        lines.append(f"text       {self.bias.line()}")
        lines.append(f"size       {self.size / 1e6:.0f} MB of {self.base.dtype}")
        return lines

    def as_json(self) -> dict[str, object]:
        return {
            "mode": self.design.mode.value,
            "not_in_place": self.note or None,
            "machine": self.design.spec.name,
            "dtype": self.base.dtype.value,
            "layers": {"circuit": self.design.layers, "base": len(self.base.layer_types)},
            "base_shape": asdict(self.design.base_shape),
            "shape": asdict(self.design.shape),
            "base_tensors": {"identical": self.identical, "changed": list(self.changed)},
            "text_tokens": self.base.vocabulary,
            "machine_tokens": Vocabulary(self.design.spec).size,
            "silence": {
                "half_layers": [asdict(half) for half in self.half_layers],
                "runs": [asdict(run) for run in self.runs],
            },
            "readout": {
                "step": self.readout.step,
                "constant": self.readout.constant,
                "text": self.readout.text,
                "base": self.readout.base,
            },
            "text_margin": {
                "positions": self.bias.positions,
                "before": self.bias.before,
                "margin": self.bias.margin,
            },
            "bytes": self.size,
        }


def write_report(report: MergeReport, folder: Path) -> None:
    """Writes the three files."""
    (folder / REPORT_FILE).write_text(json.dumps(report.as_json(), indent=2) + "\n")
    lines = [*report.summary(), "", *(half.line() for half in report.half_layers)]
    (folder / REPORT_TEXT).write_text("\n".join(lines).rstrip() + "\n")
    (folder / CARD_FILE).write_text("\n".join(_card(report)) + "\n")


def _card(report: MergeReport) -> list[str]:
    laid, base = report.design, report.base
    in_place = laid.mode is Mode.IN_PLACE
    text = (
        "The circuit layers leave every text token's row as it is, proved for the whole vocabulary (merge_report.txt); "
        "what follows them are the base's own layers, so the text is the base's own."
        if in_place
        else "The stream is wider than the base's; its norms are rescaled for that, which rounds. So the text's "
        "distribution differs a little from the base's."
    )
    return [
        "---",
        "library_name: transformers",
        "tags: [qgpuc]",
        "---",
        f"# A SIMT GPU inside {base.folder.resolve().name}",
        f"{laid.layers} layers that are the machine `{laid.spec.name}` ({laid.spec.lanes} lanes, "
        f"{laid.spec.warps} warps, "
        f"{laid.spec.memory_words} words of memory), then the {len(base.layer_types)} layers of the base. "
        "Made by `qgpuc merge`; nothing was trained, and stock `transformers` loads it.",
        "",
        text,
        "",
        *(f"    {line}" for line in report.summary()),
        "",
        f"Memory: {report.size / 1e9:.2f} GB for the weights, and as much as the base for its caches. "
        f"Positions: {base.config['max_position_embeddings']}, as the base has them.",
        "",
        "Sampling is for text. A launch wants greedy decoding (`do_sample=False`).",
        "",
        "License: the code that made this is MIT. The weights of the circuit layers are, too; those of the base stay "
        "under the base's own license (Apache-2.0 for Qwen3.5).",
    ]
