"""What asyncio does not say to a TCP socket by itself."""

import asyncio
import socket
import struct
import sys
from typing import Final

_TELLS: Final = sys.platform == "linux"
_INFO_BYTES: Final = 104  # of struct tcp_info, up to tcpi_total_retrans; older kernels have as much
_RTT, _RETRANSMITS = 68, 100  # offsets in it (linux/tcp.h)


def set_socket_options(transport: asyncio.BaseTransport) -> None:
    """No Nagle (an event waits for nobody's acknowledgement), and keep-alive probes to find dead peers."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def tcp_state(transport: asyncio.BaseTransport) -> tuple[float, int] | None:
    """Smoothed round trip in s, and segments sent again since the connection began; None where nobody tells."""
    sock = transport.get_extra_info("socket") if _TELLS else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return None  # it is closed already
    if len(told) < _INFO_BYTES:
        return None
    (rtt,), (retransmits,) = struct.unpack_from("I", told, _RTT), struct.unpack_from("I", told, _RETRANSMITS)
    return rtt * 1e-6, retransmits


def reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset, so that the peer cannot take what it got for the whole."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
