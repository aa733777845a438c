"""TLS to engines (authorities, client certificates, who is not believed) and to clients (with a reload)."""

import asyncio
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.errors import UsageError
from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.clock import wall_clock
from plimsoll.gateway.tls import ServingTls, engine_contexts
from plimsoll.policy import document
from plimsoll.policy.beside import EngineTls
from plimsoll.policy.policy import Policy
from plimsoll.storage.journal import Journal
from tests.gateway.doubles import RawClient, post
from tests.gateway.liveapp import CHAT, KEY, policy_for, running
from tests.gateway.tinyengine import Engine, until

CERTS = Path(__file__).parent / "certs"
CA, OTHER_CA, FIRST, SECOND, STRANGER = (
    str(CERTS / f"{name}.pem") for name in ("ca", "other-ca", "first", "second", "stranger")
)
SECOND_PEM = (CERTS / "second.pem").read_bytes()
BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":3}'


def engine_side(cert: str, client_ca: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def policy(engine: Engine, tls: EngineTls) -> Policy:
    base = policy_for(f"https://127.0.0.1:{engine.port}")
    return replace(base, pools=(replace(base.pools[0], tls=tls),))


@asynccontextmanager
async def secure_engine(tls: ssl.SSLContext) -> AsyncIterator[Engine]:
    engine = await Engine().start(tls=tls)
    try:
        yield engine
    finally:
        await engine.stop()


@pytest.mark.parametrize(
    ("tls", "cert", "client_ca", "served"),
    [
        (EngineTls(ca=CA), FIRST, "", True),
        (EngineTls(ca=OTHER_CA), FIRST, "", False),
        (EngineTls(ca=CA), STRANGER, "", False),
        (EngineTls(), FIRST, "", False),  # the system's authorities do not know it
        (EngineTls(verify=False), STRANGER, "", True),
        (EngineTls(ca=CA, cert=SECOND), FIRST, CA, True),
        (EngineTls(ca=CA, cert=STRANGER), FIRST, CA, False),
        (EngineTls(ca=CA), FIRST, CA, False),
    ],
    ids=["its-ca", "other-ca", "other-cert", "unknown", "unverified", "client-cert", "wrong-client-cert", "no-cert"],
)
def test_who_is_believed_to_be_the_engine(
    tmp_path: Path, tls: EngineTls, cert: str, client_ca: str, served: bool
) -> None:
    async def test() -> None:
        async with (
            secure_engine(engine_side(cert, client_ca)) as engine,
            running(policy(engine, tls), tmp_path) as (app, client),
        ):
            for _ in range(2):
                answer = await client.post("/v1/chat/completions", json=CHAT)
                assert answer.status_code in ((200,) if served else (502, 503)), answer.text
            assert len(engine.bodies) == (2 if served else 0)
            assert not (served and app.unready())

    asyncio.run(test())


def test_a_reload_brings_the_authority(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            secure_engine(engine_side(FIRST)) as engine,
            running(policy(engine, EngineTls(ca=OTHER_CA)), tmp_path) as (app, client),
        ):
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 503
            await app.change_policy(Promise(policy(engine, EngineTls(ca=CA)), {}))
            await until(lambda: not app.unready())
            for _ in range(100):  # the governor hears of it a moment later
                if (await client.post("/v1/chat/completions", json=CHAT)).status_code == 200:
                    break
                await asyncio.sleep(0.02)
            assert len(engine.bodies) == 1

    asyncio.run(test())


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    noise = tmp_path / "noise.pem"
    noise.write_text("no certificate")
    base = policy_for("https://127.0.0.1:1")
    for tls in (EngineTls(ca=str(noise)), EngineTls(ca=f"{tmp_path}/none.pem"), EngineTls(cert=str(noise))):
        with pytest.raises(UsageError, match=r"pool chat: cannot speak TLS with .*pem"):
            engine_contexts(replace(base, pools=(replace(base.pools[0], tls=tls),)))
    for cert, key, ca, named in (
        (str(noise), FIRST, "", "noise"),
        (FIRST, SECOND, "", "second"),
        (FIRST, FIRST, str(noise), "noise"),
    ):
        with pytest.raises(UsageError, match=f"cannot serve TLS with .*{named}"):
            ServingTls(cert, key, ca)


def test_the_policy_says_how() -> None:
    pool = "{name: c, model: m, engine: vllm, replicas: [%s], tls: {%s}}"
    text = "plimsoll: 1\ntiers: [{name: g, rank: 0}]\npools: [" + pool + "]\n"
    read = document.examine(text % ('"https://a"', "ca: /ca.pem, cert: /c.pem, key: /k.pem"))
    assert read.policy is not None
    assert read.policy.pools[0].tls == EngineTls("/ca.pem", True, "/c.pem", "/k.pem")
    for url, tls, fault in (
        ("http://a", "ca: /x", "no replica of this pool is https"),
        ("https://a", "key: /x", "without its certificate"),
        ("https://a", "verify: false, ca: /x", "never looked at"),
        ("https://a", "cafile: /x", "nearest known key: ca"),
    ):
        faults = document.examine(text % (f'"{url}"', tls)).faults
        assert [fault in str(found) for found in faults].count(True) == 1, faults
    assert any(
        "is believed" in str(told) for told in document.examine(text % ('"https://a"', "verify: false")).warnings
    )


# --- serving ---


@asynccontextmanager
async def serving_tls(tls: ServingTls, directory: Path, engine: Engine) -> AsyncIterator[int]:
    clock = wall_clock()
    app = App(Promise(policy_for(engine.url), {}), Journal.open(directory, clock=clock), clock)
    try:
        yield await app.listen("127.0.0.1", 0, tls.context)
    finally:
        await app.close()


def client_side(cert: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CA)
    if cert:
        context.load_cert_chain(cert)
    return context


async def talk(port: int, tls: ssl.SSLContext, num: int = 1) -> tuple[str, list[bytes]]:
    """The name in the server's certificate, and the status lines of so many requests on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    client = RawClient(reader, writer)
    try:
        (((_, name),),) = writer.get_extra_info("peercert")["subject"]
        heads = []
        for _ in range(num):
            await client.send(post(BODY, b"Authorization: Bearer " + KEY.encode() + b"\r\n"))
            heads.append((await client.answer())[0].split(b"\r\n")[0])
        return name, heads
    finally:
        writer.close()


def with_engine(test: Callable[[Engine], Awaitable[None]], runner: Callable[[Awaitable[None]], None]) -> None:
    async def whole() -> None:
        engine = await Engine().start()
        try:
            await test(engine)
        finally:
            await engine.stop()

    runner(whole())


def by_uvloop(test: Awaitable[None]) -> None:
    import uvloop

    async def main() -> None:
        await test

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_clients_are_served_over_tls_and_a_reload_shows_the_new_certificate(tmp_path: Path) -> None:
    pem = tmp_path / "cert.pem"
    pem.write_bytes(Path(FIRST).read_bytes())
    tls = ServingTls(str(pem), str(pem))

    async def test(engine: Engine) -> None:
        async with serving_tls(tls, tmp_path / "data", engine) as port:
            assert await talk(port, client_side(), 3) == ("first certificate", [b"HTTP/1.1 200 OK"] * 3)
            pem.write_bytes(SECOND_PEM)
            tls.reload()
            assert (await talk(port, client_side()))[0] == "second certificate"
            pem.write_text("half a certific")
            with pytest.raises(UsageError):
                tls.reload()
            assert (await talk(port, client_side()))[0] == "second certificate"

    with_engine(test, by_uvloop)


def test_clients_show_their_certificate_where_that_is_asked(tmp_path: Path) -> None:
    async def test(engine: Engine) -> None:
        async with serving_tls(ServingTls(FIRST, FIRST, CA), tmp_path, engine) as port:
            assert (await talk(port, client_side(SECOND)))[1] == [b"HTTP/1.1 200 OK"]
            for cert in ("", STRANGER):
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    await talk(port, client_side(cert))
            assert not engine.num_running

    with_engine(test, by_uvloop)


def test_what_is_no_tls_disturbs_nobody(tmp_path: Path) -> None:
    """Plain HTTP, noise, and a client that connects and says nothing."""

    async def test(engine: Engine) -> None:
        async with serving_tls(ServingTls(FIRST, FIRST), tmp_path, engine) as port:
            silent = await asyncio.open_connection("127.0.0.1", port)
            for noise in (post(BODY), b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x00"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(noise)
                writer.write_eof()
                assert b"200 OK" not in await asyncio.wait_for(_rest(reader), 15)
                writer.close()
            assert (await talk(port, client_side()))[1] == [b"HTTP/1.1 200 OK"]
            silent[1].close()

    with_engine(test, by_uvloop)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""


def test_serve_reads_the_certificate_again_at_sighup(tmp_path: Path) -> None:
    """The command itself: READY says https, SIGHUP brings the new certificate, a faulty one changes nothing."""
    pem = tmp_path / "cert.pem"
    pem.write_bytes(Path(FIRST).read_bytes())
    (tmp_path / "policy.yaml").write_text(
        "plimsoll: 1\ntiers: [{name: g, rank: 0}]\n"
        'pools: [{name: c, model: m, engine: vllm, replicas: ["http://127.0.0.1:9"]}]\n'
    )
    command = [
        sys.executable,
        "-m",
        "plimsoll",
        "serve",
        str(tmp_path / "policy.yaml"),
        "--port",
        "0",
        "--admin-port",
        "0",
    ]
    command += ["--tls-cert", str(pem), "--data", str(tmp_path / "data"), "--no-project"]

    async def name(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_side())
        (((_, found),),) = writer.get_extra_info("peercert")["subject"]
        writer.close()
        del reader
        return str(found)

    async def becomes(port: int, wanted: str) -> None:
        for _ in range(400):
            if await name(port) == wanted:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"never {wanted}")

    async def test() -> None:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            ready = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
            assert ready.startswith("READY https://127.0.0.1:")
            port = int(ready.split()[1].rpartition(":")[2])
            assert await name(port) == "first certificate"
            pem.write_bytes(SECOND_PEM)
            process.send_signal(signal.SIGHUP)
            await becomes(port, "second certificate")
            pem.write_text("")
            process.send_signal(signal.SIGHUP)
            while b"the old policy stays in force" not in await asyncio.wait_for(process.stderr.readline(), 10):
                pass
            assert await name(port) == "second certificate"
        finally:
            process.terminate()
            await process.wait()

    asyncio.run(test())
