"""Reads what a pool says of its engines' caches: where they publish events, and whether routing goes by these."""

from typing import Final

from plimsoll.policy.beside import ExactPrefixes
from plimsoll.policy.policy import Pool
from plimsoll.policy.section import Section
from plimsoll.units import parse_tokens

_TELL_EVENTS: Final = ("vllm", "sglang")
_EXACTLY: Final = ("vllm",)
MOST_WAIT: Final = 1.0  # s; more than a prompt's computing would be no help
MOST_RANKS: Final = 64


def read_kv_events(pool: Section) -> tuple[str, ...]:
    """The endpoints, one a replica in its order."""
    return _read_endpoints(pool, "kv_events", len(pool.texts("replicas")))


def read_exact_prefixes(pool: Section) -> ExactPrefixes | None:
    """None where the pool does not ask for it."""
    section = pool.section("exact_prefixes")
    if section is None:
        return None
    rules = ExactPrefixes(
        prompt_from=section.whole("from", 1024, parse=parse_tokens),
        within=section.duration("within", 0.05),
        ranks=section.whole("ranks", 1, most=MOST_RANKS),
        replay=_read_endpoints(section, "replay", len(pool.texts("replicas"))),
    )
    section.done()
    if rules.within > MOST_WAIT:
        section.fault("within", f"must be at most {MOST_WAIT:g}s: every long prompt may wait that long")
    if not rules.replay:
        section.warn(
            "replay",
            "none: what was published before the gateway came, or was lost, cannot be asked for",
            "vLLM: replay_endpoint of --kv-events-config",
        )
    return rules


def check_kv_events(section: Section, pool: Pool) -> None:
    """What its engine cannot do."""
    if pool.kv_events and pool.engine not in _TELL_EVENTS:
        section.fault("kv_events", f"{pool.engine} publishes none in this form", f"known: {', '.join(_TELL_EVENTS)}")
    if pool.exact_prefixes is None:
        return
    if pool.engine not in _EXACTLY:
        section.fault(
            "exact_prefixes",
            f"{pool.engine} does not tell enough of its cache, or cannot be asked for a chat's tokens",
            f"known: {', '.join(_EXACTLY)}",
        )
    told = (*pool.kv_events, *pool.exact_prefixes.replay)
    if pool.exact_prefixes.ranks > 1 and not all(each.rpartition(":")[2].isdigit() for each in told):
        section.fault("exact_prefixes", "ranks are told apart by their ports", "tcp endpoints with a port")
    if not section.has("kv_events"):
        section.fault("exact_prefixes", "nobody tells what the replicas hold", "give kv_events too")


def _read_endpoints(section: Section, key: str, num_replicas: int) -> tuple[str, ...]:
    found = section.texts(key)
    for i, (text, line) in enumerate(found):
        if not text.startswith(("tcp://", "ipc://")):
            at = f"{section.at(key)}[{i}]"
            section.faults.add(at, line, f"{text!r} is no ZeroMQ endpoint", "for example tcp://10.0.0.1:5557")
    if found and len(found) != num_replicas:
        section.fault(key, f"{len(found)} endpoints for {num_replicas} replicas", "give one for each, in their order")
    return tuple([text for text, _ in found])
