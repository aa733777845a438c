"""An engine profile from a short run on the engines at hand, by `plimsoll calibrate`, as anybody would make one."""

import subprocess
from pathlib import Path

from msgspec.structs import replace

from benchmarks.live.documents import document
from benchmarks.live.engines import ROOT, free_addresses
from benchmarks.live.living import live, remove
from benchmarks.live.play import Play
from benchmarks.live.session import BY_LOAD, Told
from benchmarks.live.stage import NOISY, Stage, capacity_of, workload, write_trace
from plimsoll.load.children import plimsoll
from plimsoll.policy.document import load

LASTS, LOAD = 30.0, 0.45  # s, and of what the shipped profile could serve
SEED = 1000  # nobody is judged by what its engines were fitted on


def calibrated(stage: Stage, home: Path, told: Told) -> Stage:
    """The stage with a profile of these very engines, made once a folder."""
    profile = home.resolve() / f"{stage.name}-profile.yaml"
    if not profile.exists():
        home.mkdir(parents=True, exist_ok=True)
        _fit(stage, home, profile, told)
    return replace(stage, profile=str(profile))


def _fit(stage: Stage, home: Path, profile: Path, told: Told) -> None:
    urls = free_addresses(stage.replicas)
    policy, trace, run = home / "calibrating.yaml", home / "calibrating.csv", home / "calibrating"
    policy.write_text(document(stage, BY_LOAD, urls))
    short = replace(stage, duration=LASTS, warm_up=0.0)
    rows = write_trace(trace, workload(short, NOISY, LOAD * capacity_of(stage, load(policy)), LASTS), SEED)
    remove(run)
    run.mkdir()
    health = live(Play(short, policy, trace, rows, urls), run).health
    if health is not None and (wrong := health.complaints(stage)):
        told(f"calibrated on a starved machine, remove {profile} to try again: {'; '.join(wrong)}")
    tries = ("--evaluations", "150")
    line = plimsoll("calibrate", str(run / "data"), "--like", stage.profile, "-o", str(profile), *tries)
    done = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True)
    told(done.stdout.strip())
