"""Where the shell comes in: Ctrl-C is one line and exit 130 from here on, also while modules are being imported."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from plimsoll.cli.main import main as run  # noqa: PLC0415 - imported within reach of the handler

        run()
    except KeyboardInterrupt:
        print("plimsoll: interrupted", file=sys.stderr)  # noqa: T201 - the command line's own voice
        sys.exit(130)
