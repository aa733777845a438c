"""Results by name, a line each in a file, so that a broken run goes on; those of a starved machine can be made anew."""

from math import inf
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.live.health import Health
from benchmarks.live.play import Times


class _Line(Struct):
    """A result as the file holds it; JSON knows no infinity, so what never came is null."""

    name: str
    ttft: list[float | None]
    gateway: list[float | None]
    health: Health | None
    wall: float


class Store:
    """The last line of a name counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_bytes().splitlines() if path.exists() else []
        self._known = {line.name: line for line in (msgspec.json.decode(each, type=_Line) for each in lines)}

    def get(self, name: str) -> Times | None:
        """What is known of it."""
        line = self._known.get(name)
        return None if line is None else Times(_infinite(line.ttft), _infinite(line.gateway), line.health, line.wall)

    def put(self, name: str, times: Times) -> None:
        """Keep it."""
        line = _Line(name, _told(times.ttft), _told(times.gateway), times.health, times.wall)
        self._known[name] = line
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")


def _told(times: tuple[float, ...]) -> list[float | None]:
    return [None if time == inf else round(time, 6) for time in times]


def _infinite(times: list[float | None]) -> tuple[float, ...]:
    return tuple(inf if time is None else time for time in times)
