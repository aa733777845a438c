"""How commands speak: JSON, tables on a terminal or without one, files."""

import sys
from errno import EPIPE
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from plimsoll.errors import UsageError

WIDTH = 190
"""Columns where there is no terminal to ask."""


def print_json(value: Any) -> None:
    """A value of ours as indented JSON, with a newline."""
    sys.stdout.write(json_text(value))


def json_text(value: Any) -> str:
    """The same as text."""
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


class Terminal(Console):
    """Rich's, but that a reader who left is told to whoever runs the command (`main`), as for any other output."""

    def on_broken_pipe(self) -> None:
        """Rich would end the program here, with exit status 1."""
        raise BrokenPipeError(EPIPE, "whoever read the output has left")


def terminal(width: int = WIDTH, *, soft_wrap: bool = False) -> Terminal:
    """Where tables go: as wide as the terminal, or `width` columns; colour only on a terminal."""
    return Terminal(highlight=False, soft_wrap=soft_wrap, width=None if sys.stdout.isatty() else width)


def write_text(path: Path, text: str) -> None:
    """A whole file, UTF-8. Raises UsageError where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
