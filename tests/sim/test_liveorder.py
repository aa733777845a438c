"""What `benchmarks.liveorder` makes of its runs: order, ties, what holds, what is kept; policies as rivals are."""

from math import inf
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.live.documents import document, promises, setting_of
from benchmarks.live.health import Health
from benchmarks.live.play import Play, Times
from benchmarks.live.ranking import P99, agreement, compare, expected, holds, order, p99_of, ranks, ratio, together
from benchmarks.live.session import Row, Session
from benchmarks.live.simulating import shaken, simulated
from benchmarks.live.stage import EMULATED, FAIR, LLAMA, NOISY, STAGES, Stage, is_gold, lasting, workload, write_trace
from benchmarks.live.store import Store
from benchmarks.live.table import lines, values
from benchmarks.liveorder import arms_named
from benchmarks.studies.arms import ARMS, PLIMSOLL, Arm
from plimsoll.policy.document import parse
from plimsoll.policy.yamltext import compact

URLS = ("http://r0", "http://r1", "http://r2")
WELL = Health(idle=0.7, lag_p99={"gateway": 0.002}, lag_most={"gateway": 0.01}, waiting={"gateway": 0.01})


def at(value: float, spread: float = 0.1) -> P99:
    return P99(value, value * (1 - spread), value * (1 + spread), 1000)


def test_a_p99_has_the_bounds_that_order_statistics_give() -> None:
    found = p99_of([float(number) for number in range(1000, 0, -1)])
    assert (found.value, found.num, found.lost) == (990.0, 1000, 0)
    assert found.low == 983.0  # binom.ppf(0.025, 1000, 0.99), and of 0.975 one more
    assert found.high == 997.0


def test_runs_that_differ_in_nothing_known_count_together() -> None:
    found = together([at(1.0), at(3.0), at(1.2)])
    assert (found.value, found.low, found.high) == (1.2, 0.9, 3.0 * 1.1)
    assert together([at(1.0), at(inf), at(inf)]).value == inf


def test_what_never_came_is_above_all_that_did() -> None:
    few = p99_of([1.0] * 995 + [inf] * 5)
    assert (few.value, few.high, few.lost) == (1.0, inf, 5)
    assert p99_of([1.0] * 980 + [inf] * 20).value == inf
    assert p99_of([1.0] * 100).high == inf  # a hundred do not bound it
    with pytest.raises(ValueError, match="no times"):
        p99_of([])


def test_intervals_that_overlap_are_a_tie() -> None:
    assert compare(at(1.0), at(2.0)) == -1
    assert compare(at(2.0), at(1.0)) == 1
    assert compare(at(1.0), at(1.1)) == 0
    assert order({"b": at(2.0), "a": at(1.0), "c": at(2.1)}) == "a < b = c"


def test_worlds_agree_where_no_pair_is_turned_round() -> None:
    simulated = {"a": at(1.0), "b": at(2.0), "c": at(2.1), "d": at(9.0)}
    live = {"a": at(1.2), "b": at(2.5), "c": at(2.4), "d": at(7.0)}
    found = agreement(simulated, live)
    assert (found.alike, found.tied, found.against, found.same) == (5, 1, (), True)
    assert found.spearman == pytest.approx(0.8)
    turned = agreement(simulated, live | {"a": at(20.0)})
    assert turned.against == (("a", "b"), ("a", "c"), ("a", "d"))
    assert turned.same is False


def test_no_pair_told_apart_is_no_order() -> None:
    assert agreement({"a": at(1.0), "b": at(1.1)}, {"a": at(1.0), "b": at(5.0)}).same is None
    assert agreement({"a": at(1.0)}, {"a": at(1.0)}).spearman is None
    assert ranks([3.0, 1.0, 3.0]) == [2.5, 1.0, 2.5]


def test_a_p99_holds_within_fifteen_percent() -> None:
    assert holds(1.14, 1.0) is True
    assert holds(0.86, 1.0) is True
    assert holds(1.16, 1.0) is False
    assert holds(inf, 1.0) is False
    assert holds(inf, inf) is None
    assert ratio(1.0, inf) is None
    assert expected(at(1.1), at(1.0))
    assert not expected(at(1.2), at(1.0))


@pytest.mark.parametrize("arm", ARMS, ids=[arm.name for arm in ARMS])
@pytest.mark.parametrize("stage", STAGES.values(), ids=list(STAGES))
def test_a_policy_file_says_what_its_rival_is(arm: Arm, stage: Stage) -> None:
    base = parse(compact(promises(stage, URLS)), "test")
    said = parse(document(stage, arm, URLS), "test")
    assert replace(said, version="") == replace(arm.put(base, setting_of(arm, stage)), version="")


def test_what_a_file_cannot_say_is_refused() -> None:
    lost = Arm("lost", (0.0,), "", lambda policy, _: replace(policy, scheduling=replace(policy.scheduling, bypasses=3)))
    with pytest.raises(ValueError, match="does not say"):
        document(EMULATED, lost, URLS)


def test_gold_asks_the_same_beside_either_neighbour(tmp_path: Path) -> None:
    fair, noisy = (
        write_trace(tmp_path / f"{kind}.csv", workload(EMULATED, kind, 40_000.0, 20.0), 3) for kind in (FAIR, NOISY)
    )
    assert [row for row in fair if is_gold(row.tenant)] == [row for row in noisy if is_gold(row.tenant)]
    asked = [sum(row.prompt_tokens for row in rows if row.tenant == "noisy") for rows in (fair, noisy)]
    assert asked[1] > 2 * asked[0]


def test_a_starved_machine_is_told() -> None:
    assert WELL.complaints(EMULATED) == []
    assert replace(WELL, idle=0.1).complaints(EMULATED) == ["CPU 10% idle"]
    assert replace(WELL, lag_p99={"gateway": 0.1}).complaints(EMULATED) == ["gateway answers in 100 ms"]
    assert replace(WELL, waiting={"engine-0": 0.5}).complaints(LLAMA) == ["engine-0 waits 50% for a core"]
    assert replace(WELL, late_p99=0.05).complaints(LLAMA) == ["client 50 ms late"]


def test_results_are_kept_with_what_never_came(tmp_path: Path) -> None:
    kept = Times((0.5, inf), (0.4, inf), WELL, 3.0)
    Store(tmp_path / "x.jsonl").put("a", Times((9.0,)))
    Store(tmp_path / "x.jsonl").put("a", kept)
    assert Store(tmp_path / "x.jsonl").get("a") == kept
    assert Store(tmp_path / "x.jsonl").get("b") is None


def table(*, starved: str = "") -> list[Row]:
    found = []
    for arm, fair, noisy in (("ours", 0.5, 0.5), ("theirs", 0.6, 6.0)):
        for kind, value in ((FAIR, fair), (NOISY, noisy)):
            why = ("CPU 1% idle",) if arm == starved else ()
            found.append(Row(arm, kind, at(value), at(value * 1.1), at(value * 1.05), (WELL,), why))
    return found


def test_the_table_tells_order_and_what_holds() -> None:
    told = "\n".join(lines(table(), EMULATED))
    assert "order simulated: ours < theirs" in told
    assert "order live:      ours < theirs" in told
    assert "same order: yes: of 1 pairs 1 alike, 0 tied, 0 against; Spearman 1" in told
    assert "within 15% live: 4 of 4, live P99 within the simulated interval: 4 of 4 (0 of 4 left out" in told
    assert "noisy ÷ fair: simulated 10, live 10" in told
    assert values(table())["same_order"] is True


def test_runs_of_a_starved_machine_are_left_out() -> None:
    told = "\n".join(lines(table(starved="theirs"), EMULATED))
    assert "! starved: CPU 1% idle" in told
    assert "within 15% live: 2 of 2, live P99 within the simulated interval: 2 of 2 (2 of 4 left out" in told
    assert values(table(starved="theirs"))["same_order"] is None
    assert all(replace(row, anyway=True).counts for row in table(starved="theirs"))


def test_rivals_are_found_by_how_their_names_begin() -> None:
    assert [arm.name for arm in arms_named("plim, fcfs")] == ["plimsoll", "fcfs, least requests"]
    assert len(arms_named("")) == len(ARMS)
    with pytest.raises(Exception, match="nobody is named luck"):
        arms_named("luck")


def test_the_simulated_half_is_run_once(tmp_path: Path) -> None:
    told: list[str] = []
    for _ in range(2):
        rows = Session(lasting(EMULATED, 10.0), tmp_path, told.append, shakes=2).rows([PLIMSOLL], [0], with_live=False)
    assert [row.kind for row in rows] == [FAIR, NOISY]
    assert all(row.simulated.num > 30 and row.live is None for row in rows)
    assert sum("simulated" in line for line in told) == 2 * 2


def test_a_simulation_that_is_not_shaken_is_that_of_simulate(tmp_path: Path) -> None:
    stage = lasting(EMULATED, 12.0)
    policy, trace = tmp_path / "policy.yaml", tmp_path / "trace.csv"
    policy.write_text(document(stage, PLIMSOLL, URLS))
    play = Play(stage, policy, trace, write_trace(trace, workload(stage, NOISY, 40_000.0, 12.0), 1), URLS)
    assert shaken(play, 0).ttft == pytest.approx(simulated(play).ttft, abs=1e-5)
    assert shaken(play, 1).ttft != shaken(play, 2).ttft
