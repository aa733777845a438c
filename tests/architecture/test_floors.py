"""Each room imports only from rooms on lower floors; pure rooms open nothing, read no clock and throw no dice."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "plimsoll"
FLOORS = {
    "errors": 0, "units": 1, "policy": 2, "slo": 3, "engine": 3, "ledger": 4, "requestlog": 4, "governor": 5,
    "analytics": 5, "diagnosis": 6, "storage": 6, "gateway": 7, "foreign": 7, "sim": 7, "load": 7, "telemetry": 7,
    "console": 8, "emulator": 8, "cli": 9, "__main__": 10,
}  # fmt: skip
PURE = {
    "errors",
    "units",
    "policy",
    "slo",
    "engine",
    "ledger",
    "requestlog",
    "governor",
    "analytics",
    "diagnosis",
    "sim",
}
IMPURE_MODULES = {"asyncio", "socket", "time", "random", "os", "logging", "subprocess", "threading", "pathlib", "io"}
NUMERIC = {"slo", "engine", "analytics", "diagnosis", "sim"}
EXCEPTIONS = {
    ("policy/document.py", "pathlib"): "reads the one file that its caller names",
    ("engine/profiles.py", "pathlib"): "reads the shipped profiles",
    ("sim/randomness.py", "random"): "the one place with dice",
}
YAML_READERS = {
    ("policy/section.py", "ruamel"),
    ("policy/foreign.py", "ruamel"),
    ("policy/yamlreader.py", "ruamel"),
    ("policy/yamltext.py", "ruamel"),
    ("engine/profiles.py", "ruamel"),
}


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name != "__init__.py":
            yield name.split("/")[0].removesuffix(".py"), name, ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide arrows"
            yield node.module or ""


def test_every_room_stands_on_a_floor() -> None:
    rooms = {room for room, _, _ in modules()}
    assert rooms >= {"policy", "slo", "governor", "cli"}, "scanned nothing"
    assert rooms <= FLOORS.keys()


@pytest.mark.parametrize(
    ("room", "name", "tree"), list(modules()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_arrows_point_down(room: str, name: str, tree: ast.Module) -> None:
    for imported in imports(tree):
        if imported.startswith("plimsoll."):
            other = imported.split(".")[1]
            assert other == room or FLOORS[other] < FLOORS[room], f"{name} imports {imported}, not on a lower floor"


@pytest.mark.parametrize(
    ("room", "name", "tree"),
    [m for m in modules() if m[0] in PURE],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pure_rooms_are_pure(room: str, name: str, tree: ast.Module) -> None:
    for imported in imports(tree):
        top = imported.split(".")[0]
        if (name, top) in EXCEPTIONS:
            continue
        assert top not in IMPURE_MODULES, f"{name} imports {imported}"
        allowed = {"plimsoll", "msgspec"} | ({"numpy", "scipy"} if room in NUMERIC else set())
        third_party = top not in sys.stdlib_module_names and top not in allowed
        assert not third_party or (name, top) in YAML_READERS, f"{name} imports {imported}"
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert name in {"policy/document.py", "engine/profiles.py"} or "open" not in calls, f"{name} opens files"


def imported_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_start_up_is_light() -> None:
    """The governor must start small and fast, the command line too."""
    heavy = {"numpy", "scipy", "duckdb", "pyarrow", "opentelemetry", "sqlalchemy", "pandas", "jinja2"}
    for statement in ("import plimsoll.cli.main", "import plimsoll.governor.events, plimsoll.governor.decisions"):
        assert not imported_by(statement) & heavy, statement


def test_files_and_functions_stay_small() -> None:
    """A file above 300 lines owes a reason here; a function above 60 lines is never owed one."""
    reasons: dict[str, str] = {}
    for _, name, tree in modules():
        lines = len((PACKAGE / name).read_text().splitlines())
        assert lines <= 300 or name in reasons, f"{name} has {lines} lines: one idea a file"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                assert size <= 60, f"{name}: {node.name} has {size} lines"
