"""The subcommands of `qgpuc`, one module each; `command` is the click command."""
