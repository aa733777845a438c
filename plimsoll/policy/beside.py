"""What a pool says beside its replicas: how they are spoken to over TLS, and who else tells of them."""

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
