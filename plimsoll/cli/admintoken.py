"""The admin token, as the file has it that READY names."""

from pathlib import Path

from plimsoll.errors import UsageError


def read_token(path: Path | None) -> str:
    """The admin token in a file; "" where none is given."""
    if path is None:
        return ""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UsageError(f"cannot read the admin token in {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text or " " in text:
        raise UsageError(f"{path} holds no admin token: it is one line, in the file that READY names")
    return text
