"""Plugins of other packages: found by entry point, on the loop or in a thread, and held at arm's length."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.errors import UsageError
from plimsoll.gateway.chain import Chain, Link, found_by
from plimsoll.gateway.plugin import Asked, Found, Said
from plimsoll.policy import document
from plimsoll.policy.plugins import OnError, Plugin
from plimsoll.slo.outcome import Reason
from tests.gateway.tinyengine import until

ASKED = Asked("req-1", "acme", "gold", "m", "chat", "", b'{"messages": "a Secret"}', True, "application/json")
HEAD = "import asyncio, sys, time\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """On the path of this process; what is written there with `package` can be found by entry point."""
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))


def package(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(HEAD + body)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[plimsoll.plugins]\n{name} = {name}:Made\n")


def a_plugin(folder: Path, name: str, check: str, **more: object) -> Plugin:
    indented = check.replace("\n", "\n    ")
    package(folder, name, f"class Made:\n    def __init__(self, settings): self.settings = settings\n    {indented}\n")
    return Plugin(name, name, **more)  # type: ignore[arg-type]


def asked_of(*plugins: Plugin) -> Found:
    async def scenario() -> Found:
        async with asyncio.timeout(20):
            return await found_by([Link(rules) for rules in plugins], ASKED)

    return asyncio.run(scenario())


WAYS = {
    "lets_pass": ("async def check(self, asked): return ''", Said.ALLOW),
    "says_no": ("async def check(self, asked): return 'no'", Said.DENY),
    "says_no_in_a_thread": ("def check(self, asked): return 'no'", Said.DENY),
    "raises": ("async def check(self, asked): raise KeyError(asked.body)", Said.ERROR),
    "raises_in_a_thread": ("def check(self, asked): raise KeyError(asked.body)", Said.ERROR),
    "exits": ("async def check(self, asked): sys.exit(3)", Said.ERROR),
    "exits_in_a_thread": ("def check(self, asked): sys.exit(3)", Said.ERROR),
    "cancels_itself": ("async def check(self, asked): raise asyncio.CancelledError", Said.ERROR),
    "forgets_to_answer": ("async def check(self, asked): pass", Said.ERROR),
    "answers_a_flag": ("def check(self, asked): return True", Said.ERROR),
    "sleeps": ("async def check(self, asked): await asyncio.sleep(60)", Said.TIMEOUT),
    "hangs": ("def check(self, asked): time.sleep(3)", Said.TIMEOUT),
    "raises_a_group": ("async def check(self, asked): raise ExceptionGroup('x', [ValueError(1)])", Said.ERROR),
}


@pytest.mark.parametrize("name", WAYS)
def test_whatever_it_does_is_its_own_answer(folder: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    check, said = WAYS[name]
    rules = a_plugin(folder, name, check, timeout=0.2, on_error=OnError.PASS)
    found = asked_of(rules)
    assert found.said == ((name, said),)
    denied = said is Said.DENY
    assert (found.reason, found.detail) == ((Reason.PLUGIN_DENIED, f"{name}: no") if denied else (None, ""))
    assert "Secret" not in caplog.text, "what it raised may quote a prompt"
    assert ("failed" in caplog.text) is (said not in {Said.ALLOW, Said.DENY})


def test_one_after_the_other_until_one_does_not_let_it_pass(folder: Path) -> None:
    first = a_plugin(folder, "first_one", "def check(self, asked): return ''")
    second = a_plugin(folder, "second_one", "def check(self, asked): return 'x' * 9999")
    third = a_plugin(folder, "third_one", "def check(self, asked): raise AssertionError('never asked')")
    found = asked_of(first, second, third)
    assert found.said == (("first_one", Said.ALLOW), ("second_one", Said.DENY))
    assert len(found.detail) == len("second_one: ") + 500
    failing = a_plugin(folder, "failing_one", "def check(self, asked): raise ValueError", on_error=OnError.REFUSE)
    assert asked_of(failing, second).reason is Reason.PLUGIN_FAILED


def test_a_hung_thread_keeps_its_place_and_no_other(folder: Path) -> None:
    """Two may be asked at once: when both hang nobody is asked any more, at once, until one comes back."""
    rules = a_plugin(folder, "hung", "def check(self, asked): time.sleep(1.0); return ''", timeout=0.1, concurrency=2)

    async def scenario() -> list[Said]:
        link = Link(rules)
        said = [(await link.ask(ASKED))[0] for _ in range(3)]
        threads = [thread for thread in threading.enumerate() if thread.name == "plimsoll-hung"]
        assert [thread.daemon for thread in threads] == [True, True], "they do not keep the process from ending"
        await until(lambda: link.num_running == 0)
        return [*said, (await link.ask(ASKED))[0]]

    assert asyncio.run(scenario()) == [Said.TIMEOUT, Said.TIMEOUT, Said.BUSY, Said.TIMEOUT]


def test_one_that_is_in_force_again_stays_and_one_that_is_not_is_closed(folder: Path) -> None:
    body = "async def check(self, asked): await asyncio.sleep(0.2); return str(self.settings.get('closed', ''))\n"
    rules = a_plugin(folder, "closing", body + "async def close(self): self.settings['closed'] = 'closed'", timeout=5)

    async def ask(chain: Chain) -> Found:
        came: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        chain.run(("closing",), ASKED, came.set_result)
        return await came

    async def scenario() -> None:
        chain = Chain()
        assert chain.take((rules,)) == []
        assert chain.take((rules,)) == [], "the same rules: the same plugin"
        asking = asyncio.create_task(ask(chain))
        await asyncio.sleep(0.05)
        (parted,) = chain.take(())
        await parted.retire()
        assert (await asking).reason is None, "it was not closed under the request that it looks at"
        assert parted._made.settings == {"closed": "closed"}
        assert (await ask(chain)).said == (), "nobody is asked any more"
        await chain.close()

    asyncio.run(scenario())


def test_one_that_works_in_a_thread_is_closed_when_that_has_ended(folder: Path) -> None:
    body = "def check(self, asked): time.sleep(0.2); return ''\nasync def close(self): self.settings['closed'] = True"
    rules = a_plugin(folder, "threaded", body, timeout=5)

    async def scenario() -> None:
        link = Link(rules)
        asking = asyncio.create_task(link.ask(ASKED))
        await asyncio.sleep(0.05)
        await link.retire()
        assert link._made.settings == {}
        assert (await asking)[0] is Said.ALLOW
        await until(lambda: link._made.settings == {"closed": True})

    asyncio.run(scenario())


def test_a_reason_is_made_fit_for_a_client_whoever_gives_it(folder: Path) -> None:
    rules = a_plugin(folder, "rude", "async def check(self, asked): return ' a\\x1b[31m\\r\\nb' + 'c' * 600")
    assert asked_of(rules).detail == "rude: " + ("a[31mb" + "c" * 600)[:499]
    silent = a_plugin(folder, "silent", "async def check(self, asked): return '\\n'")
    assert asked_of(silent).detail == "silent: no reason given"


def test_a_policy_is_told_what_cannot_be_had(folder: Path) -> None:
    package(folder, "no_check", "class Made:\n    def __init__(self, settings): pass\n")
    package(folder, "wants_words", "class Made:\n    def __init__(self, settings): self.words = settings['words']\n"
            "    async def check(self, asked): return ''\n")  # fmt: skip
    text = "plimsoll: 1\ntiers: [{name: gold, rank: 0}]\nplugins:\n"
    text += "  - {name: a, kind: nobody}\n  - {name: b, kind: no_check}\n  - {name: c, kind: wants_words}\n"
    told = [f"{fault.path} {fault.line} {fault.message}" for fault in document.examine(text).faults]
    assert len(told) == 3
    assert "plugins[0].kind 4 'nobody' is not http, and no installed package adds the plugin" in told[0]
    assert "no method check" in told[1]
    assert "KeyError: 'words'" in told[2]
    good = text.split("  - ")[0] + "  - {name: c, kind: wants_words, settings: {words: [x]}}\n"
    (plugin,) = document.parse(good).plugins
    assert plugin.settings == '{"words": ["x"]}'
    with pytest.raises(UsageError):
        Chain().take((Plugin("a", "nobody"),))
