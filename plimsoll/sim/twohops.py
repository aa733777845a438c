"""Prompts that one simulated engine computes and another decodes: the virtual hands of a pool's `prefill`.

As `gateway/twohop.py` does it: the first engine makes one token and keeps the cache, then the replica gets the request.
It fetches the cache over the first one's link, one transfer after another, computes the prompt's last token anew and
answers. Whose first engine fails is computed where it is decoded.
"""

from plimsoll.engine.features import Disaggregation
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.policy.policy import Pool
from plimsoll.sim.flight import Flight
from plimsoll.sim.job import Job
from plimsoll.sim.races import Place


class TwoHops:
    """Requests whose prompt is being computed apart: meanwhile their place is there."""

    def __init__(self, links: dict[int, Disaggregation]) -> None:
        """`links` by number of the engine that a cache leaves."""
        self.going: dict[int, Place] = {}  # by request: where it will decode, and its job there
        self._links = links
        self._taken_until = dict.fromkeys(links, 0.0)

    def begin(self, flight: Flight, place: Place, first: int) -> Job:
        """Its job on the first engine, whose number that is."""
        job = place[1]
        self.going[flight.request_id] = place
        prompt = Job(job.id, job.prompt_tokens, 1, job.hashes[: job.prompt_tokens // job.hash_tokens], job.hash_tokens)
        prompt.priority, prompt.adapter, prompt.tenant, prompt.dice = job.priority, job.adapter, job.tenant, job.dice
        flight.replica, flight.job = first, prompt
        return prompt

    def computed(self, flight: Flight, at: float) -> Place:
        """The prompt is: where the request goes now, its cache on the way."""
        place = self.going.pop(flight.request_id)
        job, prompt = place[1], flight.job
        job.loaded = job.prompt_tokens - 1
        job.loaded_at = self._taken_until[flight.replica] = arrives_at(
            self._links[flight.replica], max(at, self._taken_until[flight.replica]), job.prompt_tokens
        )
        job.found_elsewhere = prompt.cached_tokens if prompt is not None else 0
        return place


def arrives_at(link: Disaggregation, at: float, tokens: int) -> float:
    """When the cache of a prompt is over that begins to travel at that instant."""
    return at + link.latency + tokens * link.bytes_per_token / link.bandwidth


def link_of(pool: Pool, profile: EngineProfile) -> Disaggregation:
    """How caches travel between the pool's engines. Raises ProfileError where its profile does not say."""
    link = profile.disaggregation
    if link is None:
        raise ProfileError(
            f"pool {pool.name}: its prompts are computed apart, and profile {profile.name} does not say how fast a "
            "cache travels: give it `disaggregation` (docs/engines.md), or leave out `prefill`"
        )
    if link.decode_replicas != 1:
        raise ProfileError(
            f"pool {pool.name}: `prefill` and `replicas` say how many engines there are, so `disaggregation` of "
            f"profile {profile.name} must have decode_replicas: 1, not {link.decode_replicas}"
        )
    return link
