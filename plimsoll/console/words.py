"""English and Chinese: what pages say. English is what stands in templates and code.

`zh.json` has its Chinese, `en.json` words for names that are none (`neighbour_surge`).
"""

import json
from functools import cache
from pathlib import Path
from typing import Final

LANGUAGES: Final = {"en": "English", "zh": "中文"}


@cache
def known(language: str) -> dict[str, str]:
    """What is said otherwise in that language: in English names of ours that are no words, in Chinese everything."""
    found: dict[str, str] = json.loads((Path(__file__).parent / f"{language}.json").read_text(encoding="utf-8"))
    return found


class Words:
    """Says things in one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._known = known(language)

    def __call__(self, text: str, **values: object) -> str:
        """The text in this language, with `{name}` replaced; what has no translation stays English."""
        said = self._known.get(text, text)
        if self.language == "en" and "_" in said and said.isidentifier():
            said = said.replace("_", " ")
        return said.format(**values) if values else said


def chosen(cookie: str, accepted: str) -> str:
    """The language that a browser wants: its own choice here, else what it says that it reads."""
    if cookie in LANGUAGES:
        return cookie
    ranked: list[tuple[float, int, str]] = []
    for place, part in enumerate(accepted.split(",")):
        name, _, weight = part.strip().partition(";q=")
        try:
            ranked.append((-float(weight or 1), place, name.lower().partition("-")[0]))
        except ValueError:
            continue
    return next((name for _, _, name in sorted(ranked) if name in LANGUAGES), "en")
