"""Listening sockets of our own, so that a drain can take what the kernel has accepted for us before they close.

Closing a listening socket resets the connections in its backlog: their clients have connected, and may have sent. So
they are taken first, and answered like all others: 503 and `Connection: close`.
"""

import asyncio
import errno
import socket
from typing import Final

BACKLOG: Final = 4096  # connections the kernel holds for us; with 128 a burst of 140 waits a second for SYNs resent


def in_url(host: str) -> str:
    """A host as URLs have it: IPv6 addresses in brackets (RFC 3986 section 3.2.2)."""
    return f"[{host}]" if ":" in host else host


async def open_sockets(host: str, port: int) -> list[socket.socket]:
    """One a local address of that name, all on one port (0: any free one). OSError where one cannot be had."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError:
                continue  # the name has an address of a family that this machine has not
            sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            port = sock.getsockname()[1]
            sock.listen(BACKLOG)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise OSError(f"no address of {host!r} can be listened on")
    return sockets


def take_backlog(sock: socket.socket) -> list[socket.socket]:
    """The connections that wait in there, until none is left."""
    taken: list[socket.socket] = []
    while True:
        try:
            connection, _ = sock.accept()
        except OSError:  # none is left, or no descriptor is
            return taken
        connection.setblocking(False)
        taken.append(connection)


def cannot_listen(host: str, port: int, error: OSError, option: str) -> str:
    """What to tell somebody whose port is taken, or whose address is not ours; `option` names another port."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another process: choose another with {option}, or stop it"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"
