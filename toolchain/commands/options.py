"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from toolchain.forms import FORMS
from toolchain.machine_build import DTYPES

FORM_NAMES = tuple(form.name for form in FORMS.values() if form.suffix)
Decorator = Callable[[Any], Any]


def _together(*options: Decorator) -> Decorator:
    """One decorator that adds several options, in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


MACHINE = click.option(
    "--machine", default="classic", show_default=True, help="classic, nano, wide, or FILE.toml"
)
DTYPE = click.option(
    "--dtype", type=click.Choice(DTYPES), default=DTYPES[0], show_default=True, help="of the weights"
)
JSON = click.option(
    "--json", "as_json", is_flag=True, help="one JSON object on stdout, errors as JSON on stderr"
)

KERNEL = _together(
    click.argument("kernel", type=click.Path(path_type=Path)),
    click.option("--from", "source_form", type=click.Choice(FORM_NAMES), help="what KERNEL is"),
    click.option("--entry", metavar="NAME", help="the kernel to take, where the file has several"),
    MACHINE,
    click.option("--frontend", default="auto", show_default=True, help="auto, clang, nvrtc or nvcc"),
    click.option("-D", "--define", "defines", multiple=True, metavar="NAME[=VALUE]", help="a macro"),
)
"""A kernel file and how it is compiled."""

LAUNCH = _together(
    click.option("--grid", default="1", show_default=True, help="thread blocks: X or X,Y or X,Y,Z"),
    click.option("--block", default="1", show_default=True, help="threads a block: X or X,Y or X,Y,Z"),
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="NAME[:TYPE]=VALUE",
        help="in the kernel's parameter order: a=[1,2,3], c=zeros:4, n=3, bytes:u8=[1,2]",
    ),
    click.option(
        "--shared",
        "dynamic_shared",
        type=click.IntRange(min=0),
        default=0,
        help="bytes of dynamic (extern __shared__) memory",
    ),
)
"""A launch."""

CHECKPOINT = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="the model's folder (default: built once and kept in a cache)",
)
