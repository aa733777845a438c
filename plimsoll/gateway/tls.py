"""TLS on both sides: the certificate we show to clients, and what we ask of engines behind https."""

import os
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Final

from plimsoll.errors import UsageError
from plimsoll.policy.beside import EngineTls
from plimsoll.policy.policy import Policy

HANDSHAKE: Final = 10.0  # s that a client may take for its handshake


class ServingTls:
    """Certificate and key of the tenants' port; `reload` reads them again, for the connections to come."""

    def __init__(self, cert: str, key: str, client_ca: str = "") -> None:
        """PEM files; with `client_ca` clients must show a certificate that it signed. Raises UsageError."""
        self._files = (cert, key, client_ca)
        self.context = _serving(*self._files)

    def reload(self) -> None:
        """Raises UsageError, and what was shown before stays."""
        cert, key, client_ca = self._files
        _serving(*self._files)  # a faulty pair must not reach the one in use
        self.context.load_cert_chain(cert, key)
        if client_ca:
            self.context.load_verify_locations(client_ca)


def _serving(cert: str, key: str, client_ca: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, password=_no_password)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        wrong = client_ca if cert_is_fine(cert, key) else f"{cert} and {key}"
        raise UsageError(f"cannot serve TLS with {wrong}: {_why(error)}") from error
    return context


def cert_is_fine(cert: str, key: str) -> bool:
    """Whether that pair can be used."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError):
        return False
    return True


def engine_contexts(policy: Policy) -> Mapping[str, ssl.SSLContext]:
    """By replica URL, for those whose pool says how. Raises UsageError where a file cannot be used."""
    contexts: dict[str, ssl.SSLContext] = {}
    for pool in policy.pools:
        if pool.tls != EngineTls():
            try:
                context = _of_engine(pool.tls)
            except (OSError, ValueError) as error:
                wrong = f"pool {pool.name}: cannot speak TLS with {_files(pool.tls)}: {_why(error)}"
                raise UsageError(wrong) from error
            contexts |= dict.fromkeys((*pool.replicas, *pool.prefill), context)
    return contexts


@cache
def default_context() -> ssl.SSLContext:
    """Reading the system's certificates takes a tenth of a second: once, not per connection."""
    return ssl.create_default_context()


def _of_engine(tls: EngineTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca or None)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key or None, password=_no_password)
    return context


def _files(tls: EngineTls) -> str:
    return ", ".join(name for name in (tls.ca, tls.cert, tls.key) if name)


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise ValueError("the key is encrypted: give one without a passphrase, readable by its owner only")


def _why(error: Exception) -> str:
    named = isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno
    return os.strerror(named) if named else str(error)
