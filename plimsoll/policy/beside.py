"""What a pool says beside its replicas: how they are spoken to over TLS, who else tells of them and their caches."""

from msgspec import Struct


class EngineTls(Struct, frozen=True):
    """How replicas behind https are spoken to; files are PEM, "" for none."""

    ca: str = ""  # who signed the engines' certificates; "": the system's authorities
    verify: bool = True  # False: whoever answers is believed
    cert: str = ""  # our own certificate, for engines that ask
    key: str = ""  # its key; "": in the same file


class Exporters(Struct, frozen=True):
    """Metrics pages of others about a pool's replicas: base URLs, one a replica in its order, or one for all."""

    dcgm: tuple[str, ...] = ()
    lmcache: tuple[str, ...] = ()
    dynamo: tuple[str, ...] = ()


class ExactPrefixes(Struct, frozen=True):
    """Which replica holds how much of a prompt is read off its KV events, by the engine's own tokenizer."""

    prompt_from: int = 1024  # prompt tokens, as we estimate them, from which that is worth a round trip
    within: float = 0.05  # s that the tokenizer may take
    ranks: int = 1  # data parallel ranks behind each replica; their endpoints are on ports that follow each other
    replay: tuple[str, ...] = ()  # endpoints, one a replica, at which messages that were lost are asked for again
