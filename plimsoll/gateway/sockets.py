"""What asyncio does not say to a TCP socket by itself."""

import asyncio
import socket
import struct


def set_socket_options(transport: asyncio.BaseTransport) -> None:
    """No Nagle (an event waits for nobody's acknowledgement), and keep-alive probes to find dead peers."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset, so that the peer cannot take what it got for the whole."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
