"""The HTTP data path alone: a driver that forwards everything to one replica, so that what the stack costs can be told
from what governing costs.

    python -m benchmarks.passthrough --port 18801 --replica http://127.0.0.1:18900 [--profile OUT]
"""

import argparse
import asyncio
import cProfile
import signal
import time

import uvloop

from plimsoll.gateway.hands import Answer, Attempt, ClientRequest, Ended, Exchange
from plimsoll.gateway.server import HttpServer
from plimsoll.governor.events import Endpoint
from plimsoll.policy.policy import GatewayRules
from plimsoll.slo.outcome import REASONS, Reason
from plimsoll.slo.timing import TokenClock


class PassThrough:
    """Forwards, and counts tokens as the real driver does."""

    def __init__(self, replica: str) -> None:
        self._replica = replica

    def head_read(self, request: ClientRequest) -> Answer | None:
        return None

    def request(self, exchange: Exchange) -> None:
        clock = TokenClock((0.15,))
        exchange.forward(Attempt(self._replica, clock, Endpoint.CHAT, streaming=True, reserved_output_tokens=512))

    def client_left(self, exchange: Exchange, at: float) -> None:
        pass

    def first_token(self, exchange: Exchange, at: float, *, hedge: bool = False) -> None:
        pass

    def hedge_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        pass

    def prefill_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        pass

    def outgrown(self, exchange: Exchange, tokens: int, at: float) -> None:
        pass

    def attempt_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        exchange.answer(REASONS[reason].status)

    def ended(self, exchange: Exchange, end: Ended) -> None:
        pass

    def refusal(self, request: ClientRequest, reason: Reason, at: float) -> Answer:
        return Answer(REASONS[reason].status)

    def failure(self, exchange: Exchange, reason: Reason) -> Answer:
        return Answer(REASONS[reason].status)

    def failure_event(self, exchange: Exchange, reason: Reason) -> bytes:
        return b'data: {"error":{}}\n\n'


async def serve(port: int, replica: str) -> None:
    """Serve until SIGTERM."""
    server = HttpServer(PassThrough(replica), GatewayRules(), time.time)
    await server.listen("127.0.0.1", port)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.close()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--replica", required=True)
    parser.add_argument("--profile", help="write cProfile's statistics there")
    a = parser.parse_args()
    if not a.profile:
        uvloop.run(serve(a.port, a.replica))
        return
    profile = cProfile.Profile()
    profile.enable()
    uvloop.run(serve(a.port, a.replica))
    profile.disable()
    profile.dump_stats(a.profile)


if __name__ == "__main__":
    main()
