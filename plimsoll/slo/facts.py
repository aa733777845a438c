"""What judging an ended request needs. A plain class: it is made for every request and never kept."""

from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason


class Facts:
    """All that judging one ended request needs. Instants in s on one clock, durations in s."""

    def __init__(  # noqa: PLR0917 - by position, since keywords cost time on this path
        self,
        outcome: Outcome,
        reason: Reason,
        arrived_at: float,
        ended_at: float,
        timing: Timing,
        generative: bool = True,  # False: embeddings and whatever else makes no tokens
        streaming: bool = True,
        num_choices: int = 1,
        judge_non_streaming: bool = False,
        infeasible_deadline: bool = False,  # its deadline was below the unloaded prediction
        upstream_time: float | None = None,  # s spent before us; None: not reported
        upstream_trusted: bool = True,  # False: reported by a header that nothing bounds
        baseline_ttft: float | None = None,  # s, our own median (or unloaded prediction); None: not known
        baseline_tpot: float | None = None,  # s
        upstream_baseline: float = 0.0,  # s, upstream's own median for this cause; 0 until 100 were seen
        upstream_vouched: bool = True,  # False: the tenant's own word
    ) -> None:
        self.outcome = outcome
        self.reason = reason
        self.arrived_at = arrived_at
        self.ended_at = ended_at
        self.timing = timing
        self.generative = generative
        self.streaming = streaming
        self.num_choices = num_choices
        self.judge_non_streaming = judge_non_streaming
        self.infeasible_deadline = infeasible_deadline
        self.upstream_time = upstream_time
        self.upstream_trusted = upstream_trusted
        self.baseline_ttft = baseline_ttft
        self.baseline_tpot = baseline_tpot
        self.upstream_baseline = upstream_baseline
        self.upstream_vouched = upstream_vouched
