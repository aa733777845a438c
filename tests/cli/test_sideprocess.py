"""A projector that ends is started again, and ends with the gateway."""

import asyncio
import sys
from pathlib import Path

from plimsoll.cli.sideprocess import SideProcess
from tests.gateway.tinyengine import until


def test_it_is_started_again_and_stopped_at_the_end(tmp_path: Path) -> None:
    tally = tmp_path / "starts"
    code = f"import time; open({str(tally)!r}, 'a').write('x'); time.sleep(60)"

    def starts() -> int:
        return len(tally.read_text(encoding="ascii")) if tally.exists() else 0

    async def scenario() -> None:
        projecting = SideProcess(lambda: [sys.executable, "-c", code], pause=0.01)
        await projecting.start()
        await until(lambda: starts() == 1)
        assert projecting.process is not None
        projecting.process.kill()
        await until(lambda: starts() == 2)
        last = projecting.process
        await projecting.stop()
        assert last.returncode is not None
        await projecting.stop()

    asyncio.run(scenario())


def test_never_started_is_stopped_too() -> None:
    projecting = SideProcess(list)
    asyncio.run(projecting.stop())
    assert projecting.process is None
