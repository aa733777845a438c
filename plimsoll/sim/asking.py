"""What a simulated client asks and gets, as the events that live hands would make of it; what an engine is asked."""

from math import inf
from typing import Final

from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import ENTROPY_EVERY, Checked, Criticality, Endpoint, RequestArrived, RequestFinished
from plimsoll.policy.policy import UpstreamTrust
from plimsoll.sim import bound
from plimsoll.sim.fitting import whole_blocks
from plimsoll.sim.fleet import Fleet
from plimsoll.sim.flight import Flight
from plimsoll.sim.job import Job
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Phase, Reason

MAX_HASHES: Final = 16
"""The governor is told of so many prefix hashes, as by the live hands; the engine's own cache knows all."""

_MICROSECONDS: Final = 1e6
_COMPLETED: Final = Outcome.COMPLETED
_NO_PHASE, _PREFILL, _DECODE = Phase.NONE, Phase.PREFILL, Phase.DECODE
_CHAT: Final = Endpoint.CHAT
CRITICALITIES: Final = {str(each): each for each in Criticality}


def arrived(flight: Flight, at: float, upstream_trust: UpstreamTrust, checked: Checked | None = None) -> RequestArrived:
    """The event of its arrival; by position, since keywords cost time on this path."""
    hashes, hash_tokens = flight.hashes, flight.hash_tokens
    if len(hashes) > MAX_HASHES:
        stride = _stride(len(hashes))
        hashes = hashes[stride - 1 :: stride]
        hash_tokens *= stride
    return bound.REQUEST_ARRIVED(
        at,
        flight.request_id,
        flight.tenant,
        flight.model,
        flight.prompt_tokens,
        flight.max_output_tokens,
        1,
        hashes,
        hash_tokens,
        _CHAT,
        flight.streaming,
        flight.asked_tier,
        flight.cause,
        CRITICALITIES[flight.criticality],
        flight.session,
        inf,
        flight.upstream_time,
        upstream_trust,
        "",
        "",
        "",
        0,
        "",
        flight.prompt_entropy if flight.request_id % ENTROPY_EVERY == 0 else None,
        checked,
    )


def job_for(flight: Flight, decision: Dispatch, fleet: Fleet, number: int, tier: str) -> Job:
    """What the replica of that number is handed when the governor sends it the request."""
    output = flight.output_tokens
    cap = decision.max_output_tokens or flight.max_output_tokens
    job = Job(
        flight.request_id,
        flight.prompt_tokens,
        min(output, cap) if cap else output,
        flight.hashes,
        whole_blocks(flight.hash_tokens, fleet.profiles[number]),
    )
    job.thresholds = fleet.thresholds.get(tier, ())
    job.tenant = flight.tenant
    job.adapter = flight.model if flight.model in fleet.adapters[number] else ""
    job.dice = int(flight.starts_at * _MICROSECONDS)  # differs from seed to seed
    job.priority = decision.priority or 0
    job.mark = decision.reserved_output_tokens
    job.drafts = decision.drafts
    return job


def finished(  # noqa: PLR0917 - the parts of an ending
    job: Job, tokens: int, at: float, outcome: Outcome, reason: Reason, timing: Timing
) -> RequestFinished:
    """The event of its end."""
    cached = job.cached_tokens if job.found_elsewhere < 0 else job.found_elsewhere
    if outcome is _COMPLETED and job.num_guessed:
        return RequestFinished(
            at, job.id, outcome, reason, timing, job.prompt_tokens, tokens, cached,
            draft_tokens=job.num_guessed, accepted_tokens=job.num_kept,
        )  # fmt: skip
    if outcome is _COMPLETED:
        return bound.REQUEST_FINISHED(at, job.id, outcome, reason, timing, job.prompt_tokens, tokens, cached, _NO_PHASE)
    phase = _DECODE if timing.first_token_at else _PREFILL
    return RequestFinished(at, job.id, outcome, reason, timing, 0, tokens, None, phase)


def _stride(num_hashes: int) -> int:
    """Every how many-th hash the governor is told: stretches double in size until 16 cover the prompt."""
    stride = 1
    while num_hashes // stride > MAX_HASHES:
        stride *= 2
    return stride
