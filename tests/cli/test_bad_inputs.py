"""Files and options that make no sense: one line that names them, exit 2, no traceback."""

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from plimsoll.cli import main
from plimsoll.cli.key import digest_of
from tests.cli.running import Inside

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "policy.yaml")
CASES: dict[str, tuple[list[str], str]] = {
    "a token file of two lines": (["top", EXAMPLE, "--token", "DIR/two.txt"], "two.txt holds no admin token"),
    "a binary token file": (["top", EXAMPLE, "--token", "DIR/binary"], "binary holds no admin token"),
    "no URL": (["top", EXAMPLE, "--admin", "foo"], "--admin foo: must be a URL"),
    "a binary profile": (["emulate", "--profile", "DIR/binary.yaml"], "binary.yaml is not UTF-8 text (byte 1)"),
    "a nesting bomb": (["emulate", "--profile", "DIR/deep.yaml"], "deep.yaml: nested too deeply"),
    "ports that run out": (["emulate", "--profile", "tiny-vllm-cpu", "--port", "65535", "--replicas", "2"], "a port"),
    "event ports that run out": (
        ["emulate", "--profile", "tiny-vllm-cpu", "--kv-events", "65535"],
        "--kv-events must be",
    ),
    "no speed": (["emulate", "--profile", "tiny-vllm-cpu", "--speed", "nan"], "--speed must be above 0"),
    "no port": (["serve", EXAMPLE, "--port", "-1"], "--port -1: must be from 0 to 65535"),
    "binary tenants": (
        ["replay", "DIR/trace.csv", "--target", "http://127.0.0.1:1", "--tenants", "DIR/binary"],
        "not UTF-8 text (byte 1)",
    ),
    "no tenants": (
        ["replay", "DIR/trace.csv", "--target", "http://127.0.0.1:1", "--tenants", "DIR/none.yaml"],
        "no tenant map at",
    ),
}


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_used_is_named(name: str, tmp_path: Path, inside: Inside) -> None:
    words, says = CASES[name]
    (tmp_path / "two.txt").write_text("one\ntwo\n")
    (tmp_path / "trace.csv").write_text("at,prompt_tokens,output_tokens\n0,1,1\n")
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 500 + "]" * 500)
    for binary in ("binary", "binary.yaml"):
        (tmp_path / binary).write_bytes(b"a\xff\xfe")
    done = inside(*(word.replace("DIR", str(tmp_path)) for word in words))
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("words", [("journal",), ("runs",), ("console",), ("report",), ("ledger", "verify")])
def test_a_folder_that_is_no_data_directory_is_told_as_that(
    words: tuple[str, ...], tmp_path: Path, inside: Inside
) -> None:
    done = inside(*words, str(tmp_path))
    assert (done.returncode, done.stderr) == (
        2,
        f"plimsoll: {tmp_path} is no data directory of Plimsoll: it has no plimsoll.json\n",
    )


def test_a_log_of_no_known_format_is_told_without_its_control_characters(tmp_path: Path, inside: Inside) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(b"")
    assert inside("analyze", str(log)).stderr == "plimsoll: some.log: is empty\n"
    log.write_bytes(b"\x1b[31mred\x07,\xff\n1,2\n")
    told = inside("analyze", str(log)).stderr
    assert "its columns: ?[31mred?, ?. Name" in told
    assert "row 0" not in told


def test_a_port_in_use_is_told_with_what_to_do(inside: Inside) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = inside("emulate", "--profile", "tiny-llamacpp", "--port", str(port))
    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1 is in use by another process: choose another with --port" in done.stderr


@pytest.mark.parametrize(
    "words",
    [("serve", "examples/laptop.yaml", "--otel", "http://x:4318", "--data"), ("otel", "--endpoint", "http://x:4318")],
)
def test_a_missing_extra_is_told_before_anything_starts(
    words: tuple[str, ...], tmp_path: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto", None)  # as Python marks what cannot be imported
    done = inside(*words, str(tmp_path / "data"))
    assert done.returncode == 2
    assert "pip install 'plimsoll[otel]'" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("at", ["plimsoll.cli.main", "cyclopts", "plimsoll.cli.key"])
def test_ctrl_c_is_one_line_and_exit_130_also_while_modules_are_imported(at: str) -> None:
    pressed = f"""
import signal, sys
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Pressed())
sys.argv = ["plimsoll", "key"]
from plimsoll.cli.entry import main
main()
"""
    done = subprocess.run([sys.executable, "-c", pressed], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "plimsoll: interrupted\n")


def test_a_key_comes_as_json_too(inside: Inside) -> None:
    told = msgspec.json.decode(inside("key", "--json").stdout)
    assert told["digest"] == digest_of(told["key"])


def test_faults_of_ours_are_not_hidden(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_words: list[str]) -> None:
        raise OSError("no file is named, so this is no fault of the person at the terminal")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(OSError, match="no file"):
        inside("check")


class Ending(BaseHTTPRequestHandler):
    """An admin port whose gateway ends as soon as it has begun to tell."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_view_says_that_its_gateway_ended(tmp_path: Path, inside: Inside) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    with HTTPServer(("127.0.0.1", 0), Ending) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = inside("top", EXAMPLE, "--admin", url, "--token", str(token), "--plain")
        server.shutdown()
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"the gateway at {url} has ended" in done.stderr
