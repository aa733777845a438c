"""What is compiled sees all its types where a wheel is built: only the build's requirements are installed there."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def hot() -> list[str]:
    """The modules that setup.py compiles, as paths from the root."""
    text = (ROOT / "setup.py").read_text()
    names: dict[str, list[str]] = {}
    exec(text[text.index("GOVERNOR = (") : text.index("def has_compiler")], names)
    return names["HOT"]


def source_of(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def imported(path: Path) -> Iterator[str]:
    """Whatever a module imports, wherever in it: for its types, all of it is read."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_is_compiled_needs_no_more_than_the_build_requires() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    there = {re.match(r"[\w-]+", each)[0] for each in required} | set(sys.stdlib_module_names)  # type: ignore[index]
    why: dict[str, str] = {}
    left = [(path.removesuffix(".py").replace("/", "."), "setup.py") for path in hot()]
    while left:
        module, importer = left.pop()
        path = source_of(module)
        if module in why or path is None:
            continue
        why[module] = importer
        for name in imported(path):
            if name.startswith("plimsoll"):
                left.append((name, module))
            elif name.split(".")[0] not in there:
                chain = [module]
                while chain[-1] in why:
                    chain.append(why[chain[-1]])
                raise AssertionError(f"{name}, which the build lacks, is seen by way of {' < '.join(chain)}")
    assert len(why) > len(hot())


def bases_from(path: Path, compiled: set[str]) -> Iterator[str]:
    """Classes of a module whose base is imported from one that is compiled; protocols are never made."""
    tree = ast.parse(path.read_text())
    source = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "Protocol" not in [ast.unparse(base) for base in node.bases]:
            for base in node.bases:
                if isinstance(base, ast.Name) and source.get(base.id) in compiled:
                    yield f"{path.relative_to(ROOT)}: {node.name}({base.id})"


def test_nothing_plain_inherits_from_what_is_compiled() -> None:
    """Compiled classes cannot be inherited from by others: such a heir raises when it is made, and only in a wheel."""
    compiled = {path.removesuffix(".py").replace("/", ".") for path in hot()}
    plain = [path for path in (ROOT / "plimsoll").rglob("*.py") if str(path.relative_to(ROOT)) not in hot()]
    assert len(plain) > 100
    assert [heir for path in plain for heir in bases_from(path, compiled)] == []
    source = ROOT / "plimsoll" / "gateway" / "tokenizing.py"
    assert list(bases_from(source, compiled)) == ["plimsoll/gateway/tokenizing.py: Question(SideRequest)"]
