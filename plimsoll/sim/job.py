"""One request inside a replica, and what a replica tells of it."""

from typing import Final

from plimsoll.sim.gaps import Gaps
from plimsoll.sim.kvcache import Extent
from plimsoll.slo.measured import Timing, TokenRun

WAITING: Final = 0  # in the engine's own queue
PREFILL: Final = 1  # some of its prompt is in the step that runs now, or was in the last one
DECODE: Final = 2
ENDED: Final = 3

FIRST_TOKEN: Final = 0
FINISHED: Final = 1
PREEMPTED: Final = 2
RESUMED: Final = 3  # a token came again after a preemption
OUTGROWN: Final = 4  # it has more output than `mark` said


# Shared by all jobs that have none yet: they are replaced, never added to.
_NO_MARKS: Final[list[list[object]]] = []
_NO_NUMBERS: Final[list[int]] = []
_NO_EXTENTS: Final[list[Extent]] = []


class Job:
    """A request for a replica. `output_tokens` is what it will produce; 0 is prefill only (embeddings).

    `hashes` are chained: equal at i means equal up to the end of the i-th stretch of `hash_tokens` tokens. Those that
    lie beyond the prompt (a known answer, which the session's next prompt repeats) can be hit once the job has ended.
    """

    def __init__(
        self, id_: int, prompt_tokens: int, output_tokens: int, hashes: tuple[int, ...] = (), hash_tokens: int = 512
    ) -> None:
        self.id = id_
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.hashes = hashes
        self.hash_tokens = hash_tokens
        self.priority = 0
        self.mark = 0  # tell OUTGROWN when the output passes so many tokens, and at each doubling; 0: never
        self.tenant = ""  # its class of requests, where acceptance of guesses depends on it
        self.adapter = ""  # LoRA adapter; "": the model itself
        self.dice = 0  # key of its random numbers, where its engine throws any
        self.loaded_from = 0  # tokens of the prompt whose KV comes from outside: from here
        self.loaded = 0  # up to here; whole blocks, but for a prompt's last ones
        self.loaded_at = 0.0  # when it is here, where an engine waits for it from another one; 0.0: nothing is to come
        self.found_elsewhere = -1  # tokens that the engine had already which computed the prompt; -1: computed here
        self.engine = -1  # which decode engine of a disaggregated replica it is on or bound for
        self.cached_tokens = 0  # prompt tokens found in the prefix cache when first scheduled
        self.num_preemptions = 0
        self.first_token_at = 0.0
        self.last_token_at = 0.0
        # The replica's own notes.
        self.state = WAITING
        self.place = 0  # in the engine's queue, set there
        self.order = 0  # place among the running
        self.target = prompt_tokens  # tokens to compute before the next token comes
        self.computed = 0  # of these, before the step that runs now (while prefilling)
        self.chunk = 0  # tokens of it in the step that runs now (while prefilling)
        self.generated = 0  # output tokens at the end of `since`
        self.since = 0  # number of the step that ended its prefill
        self.extents: list[Extent] = _NO_EXTENTS  # KV under prefix hashes, from the start of the prompt …
        self.num_hashes = 0  # … so many of them
        self.shared = 0  # blocks in `extents`
        self.kept = 0  # under how many hashes it had KV when it was preempted
        self.earlier: list[TokenRun] = []  # gaps up to its last preemption, and across it
        self.rank = 0  # of a data-parallel replica
        self.held = 0  # blocks that it has, where they are counted one by one
        self.guesses = 0  # of a draft, in the step that runs now
        self.num_verified = 0  # steps that verified guesses of it
        self.drafts = True  # False: nothing is guessed for it
        self.num_guessed = 0
        self.num_kept = 0  # of these, those that were right
        # Notes of `gaptally.py`.
        self.thresholds: tuple[int, ...] = ()  # which of the tally's concern it, set by who submits it
        self.marks: list[list[object]] = (
            _NO_MARKS  # the tally when it began to decode, and where its position class changed
        )
        self.bad_before: list[int] = _NO_NUMBERS  # gaps above each threshold when it began to decode
        self.position = 0  # class of its first gap since then
        self.gaps: Gaps | None = None  # those before its last preemption
        self.timing: Timing | None = None  # what its client saw, once it has FINISHED


class Output:
    """What happened to a job: FIRST_TOKEN, FINISHED, PREEMPTED, RESUMED or OUTGROWN, at a step's end."""

    def __init__(self, kind: int, at: float, job: Job) -> None:
        self.kind = kind
        self.at = at
        self.job = job
