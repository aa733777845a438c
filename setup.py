"""Compiles the hot rooms with mypyc where that can be done; the plain source runs the same without it.

PLIMSOLL_COMPILE=auto (default)  compile if mypy and a C compiler are there; if that fails, install the plain source
PLIMSOLL_COMPILE=1               compile, or fail
PLIMSOLL_COMPILE=0               plain source
PLIMSOLL_OPT_LEVEL=0             compile in half the time to something slower (default: 2); tests of the wheel do

In a working tree: `PLIMSOLL_COMPILE=1 python setup.py build_ext --inplace`; `python setup.py clean_compiled` undoes it.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build_ext import build_ext

MODE = os.environ.get("PLIMSOLL_COMPILE", "auto")
ROOT = Path(__file__).parent
GOVERNOR = (
    "adapters admission attempts baseline classes counts degradation dispatching endings estimates floors flowcontrol "
    "fronts governor hedgebudget hedging keeping kvuse learned lifecycle limits lines matrix months outliers "
    "oversubscription placing plugins pool poolsizing predicting preferring prefill prefiller prefilling prefixes "
    "promises promptfloors queueing register replicas request routing saturation servicefloors settlement shedding "
    "slotline speculating steady stepclock tenants tiers timers turns upkeep"
)
SIM = (
    "agenda asking batch bound checks chunks disaggregated due engine engines enginequeue fitting fleet flight gaps "
    "gaptally gate holding job kvcache kvtiers races replica simulation speculation stepbatch steplog stepping "
    "tracetelling twohops virtualhands"
)
GATEWAY = (
    "answer attempts auth carrier channel checking clock connection cors driver enginehead exchange flight hands "
    "headers hedging hinting intake labels openai origin patches patience prompts reader reading routes siderequest "
    "sockets stream tokenizing twohop upstream usage"
)
HOT = [
    *(f"plimsoll/governor/{name}.py" for name in GOVERNOR.split()),
    *(f"plimsoll/gateway/{name}.py" for name in GATEWAY.split()),
    *(f"plimsoll/engine/{name}.py" for name in ("blocks", "experts", "grids", "steptime")),
    *(f"plimsoll/sim/{name}.py" for name in SIM.split()),
    "plimsoll/slo/charge.py",
    "plimsoll/slo/facts.py",
    "plimsoll/slo/sli.py",
    "plimsoll/slo/timing.py",
    "plimsoll/storage/appender.py",
    "plimsoll/storage/journal.py",
    *(f"plimsoll/telemetry/{name}.py" for name in ("nativetimes", "owners", "prometheus", "written")),
]
"""Plain typed classes only; modules that define msgspec values or enums stay as they are."""


def has_compiler() -> bool:
    """Whether the C compiler that built this Python is here."""
    name = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(os.environ.get("CC", name)) is not None


def extensions() -> list:
    """The extension modules to build; none where they are not wanted or cannot be built."""
    if MODE == "0" or not set(sys.argv) & {"build_ext", "build", "bdist_wheel", "install", "editable_wheel", "develop"}:
        return []
    try:
        from mypyc.build import mypycify

        if not has_compiler():
            raise RuntimeError("no C compiler")
        return mypycify(
            ["--config-file=", "--strict", *HOT],
            opt_level=os.environ.get("PLIMSOLL_OPT_LEVEL", "2"),
            debug_level="0",
            multi_file=False,
        )
    except (ImportError, RuntimeError, SystemExit) as error:
        if MODE == "1":
            raise
        print(f"plimsoll: not compiled ({error}); the plain source runs the same, slower", file=sys.stderr)
        return []


def unexported(made: list) -> list:
    """They export nothing but the entry that Python asks for: calls within need no detour and can be inlined."""
    if os.name == "posix":
        for extension in made:
            extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]
    return made


class BuildOrNot(build_ext):
    """Under `auto` a failed compilation leaves the plain source, and never fails the install."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # whatever a C compiler can do wrong
            if MODE == "1":
                raise
            print(f"plimsoll: not compiled ({error}); the plain source runs the same, slower", file=sys.stderr)
            self.extensions = []


class CleanCompiled(Command):
    """Removes what `build_ext --inplace` left in the tree."""

    user_options = []

    def initialize_options(self) -> None:
        """Nothing to set."""

    def finalize_options(self) -> None:
        """Nothing to check."""

    def run(self) -> None:
        for path in [*ROOT.glob("*__mypyc*.so"), *ROOT.glob("plimsoll/**/*.so")]:
            path.unlink()


setup(ext_modules=unexported(extensions()), cmdclass={"build_ext": BuildOrNot, "clean_compiled": CleanCompiled})
