"""What of a replica's report is kept at hand, field by field: they are read by their place."""

import pytest

from plimsoll.governor.adapters import LoadedAdapters
from plimsoll.governor.events import ReplicaReport
from plimsoll.governor.replicas import Replica


def report(healthy: bool = True, waiting: int | None = 0, usage: float | None = 0.5) -> ReplicaReport:
    return ReplicaReport(
        "http://r0", healthy, 12.5, 3, waiting, usage, kv_blocks=4000, block_size=16, prefix_queries=7, prefix_hits=8,
        preemptions=9, max_context=8192, adapters=("lora",), adapter_slots=2,
    )  # fmt: skip


def test_every_figure_is_kept_in_its_place() -> None:
    replica = Replica("http://r0", 0)
    replica.loaded = LoadedAdapters(1)
    replica.reported(report())
    assert (replica.healthy, replica.says_well, replica.says_full) == (True, True, False)
    assert (replica.reported_at, replica.started_at) == (12.5, 12.5)
    assert (replica.told_blocks, replica.told_block_size, replica.told_context) == (4000, 16, 8192)
    assert replica.loaded.holds("lora")
    assert replica.report == report()


@pytest.mark.parametrize(
    ("waiting", "usage", "full"),
    [(1, 0.96, True), (0, 0.96, False), (1, 0.9, False), (1, None, False), (None, 1.0, False)],
)
def test_it_is_full_where_it_queues_for_blocks(waiting: int | None, usage: float | None, full: bool) -> None:
    replica = Replica("http://r0", 0)
    replica.reported(report(waiting=waiting, usage=usage))
    assert replica.says_full is full


def test_what_attempts_met_does_not_change_what_it_said() -> None:
    replica = Replica("http://r0", 0)
    replica.reported(report())
    replica.refused()
    assert (replica.healthy, replica.says_well) == (False, True)
    replica.reported(report(healthy=False))
    assert not replica.says_well
