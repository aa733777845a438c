"""What a replica serves of each mix where its queue never runs empty: `python -m benchmarks.studies.capacity`."""

from benchmarks.studies.run import run, shown
from benchmarks.studies.service import MIXES, REPLICAS, everybody, policy
from plimsoll.policy.presets import preset

OVERLOAD = 2.0
DURATION = 240.0


def main() -> None:
    for mix in MIXES.values():
        for rules in ("default", "least_requests", "fcfs"):
            served = []
            for seed in range(1):
                figures = run(preset(policy(mix), rules), everybody(mix, OVERLOAD, DURATION), seed)
                served.append(figures.service / REPLICAS)
            print(f"{mix.name:9} {rules:15} {shown(served)} tokens of service a second and replica")


if __name__ == "__main__":
    main()
