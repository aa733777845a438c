"""Writing Prometheus' text format, version 0.0.4."""

from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Page:
    """One page, family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._name = ""

    def family(self, name: str, kind: str, text: str) -> None:
        """Begin a family; the samples that follow are its own."""
        self._name = name
        self._lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")

    def sample(self, value: float, suffix: str = "", /, **labels: str) -> None:
        """One sample of the family begun last."""
        inner = ",".join([f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()])
        braces = f"{{{inner}}}" if inner else ""
        self._lines.append(f"{self._name}{suffix}{braces} {value:.15g}")

    def optional(self, value: float | None, /, **labels: str) -> None:
        """One sample, or none where the value is not known: unknown is not zero."""
        if value is not None:
            self.sample(value, **labels)

    def encode(self) -> bytes:
        """The whole page."""
        return ("\n".join(self._lines) + "\n").encode()
