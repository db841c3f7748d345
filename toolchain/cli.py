"""The `qgpuc` command. Exit status: 0 right, 1 a check failed, 2 the input or the usage was refused."""

import json
import os
import sys
from collections.abc import Sequence

import click

from toolchain.errors import CompileError, SourceLocation

COMMANDS = ("compile", "build", "run", "check", "inspect", "diff", "bench", "merge", "chat", "eval")
"""Each is a function of its own name in toolchain/commands/NAME.py, imported when it is asked for."""


class Commands(click.Group):
    """Finds commands by name, so that `qgpuc --help` imports no compiler."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = __import__(f"toolchain.commands.{cmd_name}", fromlist=["command"])
        return module.command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="qgpuc")
def cli() -> None:
    """Compiles CUDA kernels to programs for a GPU made of transformer weights, and runs them."""


def run_command(arguments: Sequence[str]) -> int:
    """Runs one command line and gives its exit status. A refusal is told on stderr, without a traceback."""
    as_json = "--json" in arguments
    try:
        return cli.main(list(arguments), prog_name="qgpuc", standalone_mode=False) or 0
    except click.ClickException as error:
        if as_json:
            _tell(CompileError(error.format_message()), as_json)
        else:
            error.show()
        return 2
    except CompileError as error:
        _tell(error, as_json)
        return 2
    except click.Abort:
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _tell(CompileError(f"{error.filename}: {error.strerror}" if error.filename else str(error)), as_json)
        return 2


def _tell(error: CompileError, as_json: bool) -> None:
    if not as_json:
        click.echo(str(error), err=True)
        return
    fields = {"message": error.message, "hint": error.hint, "limit": error.limit, "excerpt": error.excerpt}
    told = {"location": _place(error.location)} | {name: text for name, text in fields.items() if text}
    click.echo(json.dumps({"error": told}), err=True)


def _place(location: SourceLocation | None) -> dict[str, object] | None:
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "column": location.column}


def main() -> None:
    """The console script."""
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
