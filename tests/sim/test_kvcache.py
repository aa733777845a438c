"""Runs against single hashes: the same hits, the same evictions, in the same order."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from plimsoll.sim.kvcache import Extent, KvCache, reach
from tests.sim.blockcache import BlockCache, Piece

NUM_BLOCKS = 60


class Held:
    """What one job holds in both."""

    def __init__(self, id_: int, prompt: tuple[str, ...], unit: int) -> None:
        self.id, self.prompt, self.unit = id_, prompt, unit
        self.extents: list[Extent] = []
        self.pieces: list[Piece] = []
        self.private = 0
        self.kept = 0


class Both:
    """Orders given to both; what they answer must not differ."""

    def __init__(self, unit: int) -> None:
        self.runs, self.blocks, self.unit = KvCache(NUM_BLOCKS, True), BlockCache(NUM_BLOCKS), unit
        self.most = 0  # hashes in one extent
        self.told: list[tuple[bool, tuple[object, ...], int, int]] = []
        self.runs.told = self.told
        self.heard: set[object] = set()  # what others can hit, by what the runs told

    def begin(self, job: Held, limit: int) -> bool:
        found, pieces = self.runs.match(job.prompt, limit), self.blocks.match(job.prompt, limit)
        assert reach(found) == len(pieces)
        own = self.runs.left_behind(job.id) if len(pieces) == job.kept else 0
        self.runs.take(found)
        self.blocks.take(pieces)
        if own:
            assert self.runs.take_own(job.id) == self.blocks.take_own(job.id) == own
        else:
            self.runs.forget(job.id)
            self.blocks.forget(job.id)
        job.extents, job.pieces, job.private = found, pieces, own
        return self.same([job])

    def grow(self, job: Held, num: int) -> bool:
        """Compute and publish `num` more hashes, as far as there is room."""
        start = len(job.pieces)
        stop = min(start + num, len(job.prompt), start + self.runs.num_free // self.unit)
        self.allocate((stop - start) * self.unit)
        self.runs.publish(job.prompt, start, stop, self.unit, job.extents)
        job.pieces += [self.blocks.publish(key, self.unit) for key in job.prompt[start:stop]]
        self.most = max([self.most, *(extent.end - extent.start for extent in job.extents)])
        return self.same([job])

    def decode(self, job: Held, num: int) -> bool:
        num = min(num, self.runs.num_free)
        self.allocate(num)
        job.private += num
        return self.same([job])

    def end(self, job: Held, *, preempted: bool) -> bool:
        own = job.private // 2 if preempted else 0
        job.kept = len(job.pieces)
        self.runs.free([], 0, job.private - own)
        self.blocks.free([], job.private - own)
        self.runs.leave(job.id, own)
        self.blocks.leave(job.id, own)
        self.runs.free(job.extents, len(job.pieces), 0)
        self.blocks.free(job.pieces, 0)
        job.extents, job.pieces, job.private = [], [], 0
        return self.same([job])

    def allocate(self, num: int) -> None:
        self.runs.allocate(num)
        self.blocks.allocate(num)

    def same(self, jobs: list[Held]) -> bool:
        """Whether both tell the same of those jobs and of what is free."""
        assert self.runs.num_free == self.blocks.num_free
        for stored, hashes, start, stop in self.told:
            assert start < stop
            (self.heard.update if stored else self.heard.difference_update)(hashes[start:stop])
        self.told.clear()
        assert self.heard == set(self.blocks.cached)
        for job in jobs:
            num = len(self.blocks.match(job.prompt, len(job.prompt)))
            assert reach(self.runs.match(job.prompt, len(job.prompt))) == num
            assert self.runs.left_behind(job.id) == self.blocks.left_behind(job.id)
        return True


@st.composite
def prompts(draw: st.DrawFn) -> tuple[str, ...]:
    """Chained hashes of a prompt from a small language, so that beginnings are shared: its name is what led to it."""
    branches = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6)), min_size=1, max_size=3))
    text = "".join(letter * num for letter, num in branches)
    return tuple(text[: place + 1] for place in range(len(text)))


orders = st.tuples(st.sampled_from(["go on", "go on", "go on", "decode", "end", "preempt"]), st.integers(0, 7))


@settings(max_examples=400)
@given(
    unit=st.sampled_from([1, 1, 2, 3]),
    texts=st.lists(prompts(), min_size=2, max_size=6),
    steps=st.lists(st.tuples(st.integers(0, 5), orders), max_size=80),
)
def test_runs_and_single_hashes_hit_and_evict_alike(
    unit: int, texts: list[tuple[str, ...]], steps: list[tuple[int, tuple[str, int]]]
) -> None:
    both = Both(unit)
    jobs = [Held(number, text, unit) for number, text in enumerate(texts)]
    running: set[int] = set()
    for number, (order, size) in steps:
        job = jobs[number % len(jobs)]
        if job.id not in running:
            running.add(job.id)
            both.begin(job, len(job.prompt) - size % 3)
        elif order == "go on":
            both.grow(job, size)
        elif order == "decode":
            both.decode(job, 2 * size)
        else:
            running.remove(job.id)
            both.end(job, preempted=order == "preempt")
        if size == 0:
            both.same(jobs)
    event(f"longest run: {min(both.most, 4)}+")
    for number in sorted(running):
        both.end(jobs[number], preempted=False)
    both.same(jobs)
    assert both.runs.num_free == NUM_BLOCKS
    for left in range(NUM_BLOCKS):  # evict one block after another: the order of the whole free list
        both.allocate(1)
        assert both.runs.num_free == NUM_BLOCKS - left - 1
        both.same(jobs)


def test_what_is_cached_costs_by_runs_not_by_hashes() -> None:
    both = Both(1)
    long = tuple(range(40))
    job = Held(0, long, 1)  # type: ignore[arg-type]
    both.begin(job, 40)
    for _ in range(8):
        both.grow(job, 5)
    assert len(job.extents) == 1
    other = Held(1, (*long[:17], *range(100, 110)), 1)  # type: ignore[arg-type]
    both.begin(other, 26)
    both.grow(other, 26)
    assert [(extent.start, extent.end) for extent in other.extents] == [(0, 17), (17, 27)]
    both.end(job, preempted=False)
    both.end(other, preempted=False)
    assert both.same([job, other])
