"""Builds the wheel as a user's installer would, opens it, imports it in a fresh environment and runs its commands."""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUST_HOLD = ("plimsoll/py.typed", "plimsoll/cli/main.py", "plimsoll/governor/governor.py")
ELSEWHERE = tempfile.gettempdir()  # where the source tree cannot be imported from
COMPILED_TESTS = (
    *("tests/governor", "tests/slo/test_timing.py", "tests/slo/test_sli.py", "tests/laws"),
    *(
        f"tests/gateway/test_{name}.py"
        for name in ("driver_flow", "exchange", "failures", "oracle", "reader", "stream")
    ),
    "tests/storage/test_journal.py",
    "tests/telemetry/test_prometheus_page.py",
)


def run(*command: str | Path, cwd: str | Path = ELSEWHERE) -> str:
    """Run a command outside the source tree; its output, or an end with its errors."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Fail with the reason at the first thing that is not as a user expects."""
    os.environ.setdefault("PLIMSOLL_OPT_LEVEL", "0")  # what is compiled must do the same; how fast is a benchmark's
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
        wheel = next(Path(folder).glob("*.whl"))
        names = set(zipfile.ZipFile(wheel).namelist())
        absent = [name for name in MUST_HOLD if name not in names]
        assert not absent, f"the wheel lacks {absent}"
        assert not any(name.startswith("tests/") for name in names), "the wheel carries tests"
        venv.create(Path(folder) / "env", with_pip=True)
        python = Path(folder) / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        print("wheel:", wheel.name, run(python, "-m", "plimsoll", "--version").strip())
        run(python, "-m", "plimsoll", "--help")
        compiled = [name for name in names if name.endswith(".so")]
        print(f"wheel: {len(names)} files, {len(compiled)} compiled")
        if shutil.which("cc"):
            assert compiled, "a C compiler is here, yet nothing was compiled: see the build's output"
            hold_the_laws(python, Path(folder))


def hold_the_laws(python: Path, folder: Path) -> None:
    """The compiled rooms must decide as the plain ones: the same laws and examples, against what was installed."""
    needed = ("pytest", "pytest-timeout", "hypothesis", "h11", "prometheus-client", "setuptools>=77", "lightgbm>=4")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed)
    for source in ("tests", "benchmarks", "examples"):
        shutil.copytree(ROOT / source, folder / source)
    shutil.copy(ROOT / "pyproject.toml", folder)
    where = run(python, "-c", "import plimsoll.governor.governor as g; print(g.__file__)", cwd=folder).strip()
    assert where.endswith(".so"), f"the governor in use is {where}"
    told = run(python, "-m", "pytest", "-q", "-m", "not long and not real", *COMPILED_TESTS, cwd=folder)
    print("wheel: compiled:", told.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
