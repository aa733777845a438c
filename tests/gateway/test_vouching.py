"""Who is believed about the time before us: what forgers, replays, skewed clocks and clumsy clients get."""

import hmac
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.labels import ClientLabels, read_labels
from plimsoll.gateway.vouching import Vouching, read_secrets, sign_hop, sign_upstream
from plimsoll.governor.events import RequestArrived
from plimsoll.policy import document
from plimsoll.policy.policy import Service, UpstreamTrust
from tests.gateway.drivenworld import BODY, POLICY, World
from tests.gateway.test_driver_flow import dispatch

NOW = 1_800_000_000.0
SECRET, OLD, OTHERS = b"s" * 32, b"o" * 32, b"x" * 32
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEADER, SIGNED, MEASURED, NOBODY = (
    UpstreamTrust.HEADER,
    UpstreamTrust.SIGNED,
    UpstreamTrust.MEASURED,
    UpstreamTrust.NONE,
)


def vouching(trust: UpstreamTrust, *secrets: bytes, window: float = 60.0) -> Vouching:
    return Vouching(Service(upstream_time=trust, upstream_window=window), secrets or (SECRET, OLD))


def signed(secret: bytes = SECRET, at: bytes = b"1799999999.5", **changes: bytes) -> dict[bytes, bytes]:
    fields = {b"x-request-id": b"r-1", b"x-plimsoll-cause": b"rag", b"x-plimsoll-upstream-ms": b"250"}
    value = sign_upstream(secret, at, fields[b"x-request-id"], b"rag", b"250")
    fields[b"x-plimsoll-upstream-signature"] = value
    return fields | {name.replace("_", "-").encode(): text for name, text in changes.items()}


def told(labels: ClientLabels | RequestArrived) -> tuple[float | None, UpstreamTrust]:
    return labels.upstream_time, labels.upstream_trust


# --- signed ---


def test_the_signature_is_what_the_manual_says() -> None:
    lines = b"plimsoll-upstream-1\n1799999999.5\nr-1\nrag\n250"
    expected = b"t=1799999999.5,v1=" + hmac.new(SECRET, lines, sha256).hexdigest().encode()
    assert signed()[b"x-plimsoll-upstream-signature"] == expected


@pytest.mark.parametrize("secret", [SECRET, OLD])
def test_what_is_signed_with_any_of_the_secrets_is_believed(secret: bytes) -> None:
    assert told(read_labels(signed(secret), NOW, vouching(SIGNED))) == (0.25, SIGNED)


@pytest.mark.parametrize(
    "fields",
    [
        signed(OTHERS),
        signed(x_plimsoll_upstream_ms=b"251"),
        signed(x_plimsoll_cause=b"tool"),
        signed(x_request_id=b"r-2"),
        signed(x_plimsoll_upstream_signature=b""),
        signed(x_plimsoll_upstream_signature=b"t=1799999999.5,v1=" + b"0" * 64),
        signed(x_plimsoll_upstream_signature=b"t=nan,v1=" + b"0" * 64),
        signed(x_plimsoll_upstream_signature=b"t=1e9,v1=" + b"0" * 64),
        signed(at=b"1799999939"),  # 61 s old
        signed(at=b"1800000006"),  # 6 s in the future
        {b"x-plimsoll-upstream-ms": b"250"},
    ],
)
def test_what_is_not_signed_so_is_as_if_it_had_not_been_said(fields: dict[bytes, bytes]) -> None:
    assert told(read_labels(fields, NOW, vouching(SIGNED))) == (None, NOBODY)


@given(st.integers(0, 10**9).map(lambda ms: b"%d" % ms), st.sampled_from([SIGNED, MEASURED]))
def test_where_others_vouch_the_clients_header_changes_nothing(said: bytes, trust: UpstreamTrust) -> None:
    """Alone, and beside a hop of ours that measured."""
    for fields in ({}, hop()):
        without = read_labels(fields, NOW, vouching(trust))
        claimed = fields | {b"x-plimsoll-upstream-ms": said}
        assert told(read_labels(claimed, NOW, vouching(trust))) == told(without)


def test_a_signature_is_good_once() -> None:
    gate = vouching(SIGNED)
    assert told(read_labels(signed(), NOW, gate)) == (0.25, SIGNED)
    assert told(read_labels(signed(), NOW + 1, gate)) == (None, NOBODY)
    assert told(read_labels(signed(at=b"1799999999.6"), NOW + 1, gate)) == (0.25, SIGNED)


def test_what_is_remembered_is_bounded_and_outlives_the_window() -> None:
    gate = vouching(SIGNED)
    for second in range(200):
        fields = signed(at=b"%d" % (NOW + second))
        assert told(read_labels(fields, NOW + second, gate))[1] is SIGNED
        assert told(read_labels(fields, NOW + second, gate))[1] is NOBODY
    assert 60 <= len(gate._seen) <= 67


def test_the_time_since_the_start_bounds_what_is_signed() -> None:
    fields = signed(x_request_start=b"t=1799999999.9")
    time, trust = told(read_labels(fields, NOW, vouching(SIGNED)))
    assert trust is SIGNED
    assert time == pytest.approx(0.1, abs=1e-6)


def test_a_figure_in_baggage_is_not_what_was_signed() -> None:
    value = sign_upstream(SECRET, b"1799999999.5", b"", b"", b"")
    fields = {b"baggage": b"plimsoll.upstream_ms=9000", b"x-plimsoll-upstream-signature": value}
    assert told(read_labels(fields, NOW, vouching(SIGNED))) == (None, NOBODY)


def test_a_reload_makes_no_used_signature_good_again(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    policy = document.parse(write_policy(tmp_path, f"signed, upstream_secrets: [{secret}]").read_text())
    world = World(policy)
    at = b"%.1f" % world.clock()
    fields = {"x_request_id": b"r-1", "x_plimsoll_upstream_ms": b"250"}
    fields["x_plimsoll_upstream_signature"] = sign_upstream(SECRET, at, b"r-1", b"", b"250")
    world.send(BODY, **fields)
    assert told(world.arrival) == (0.25, SIGNED)
    world.driver.change_policy(policy, {})
    world.send(BODY, **fields)
    assert told(world.arrival) == (None, NOBODY)


# --- measured ---


def hop(secret: bytes = SECRET, at: bytes = b"1799999990.25", trace: str = TRACE) -> dict[bytes, bytes]:
    return {
        b"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01".encode(),
        b"x-plimsoll-hop": sign_hop(secret, at, trace.encode()),
    }


def test_a_hop_of_ours_measures_and_may_come_again() -> None:
    gate = vouching(MEASURED)
    assert told(read_labels(hop(), NOW, gate)) == (9.75, MEASURED)
    assert told(read_labels(hop(), NOW + 2, gate)) == (11.75, MEASURED)  # the same user's second call to a model
    early = hop(at=b"1800000001")
    assert told(read_labels(early, NOW, gate)) == (0.0, MEASURED)  # another machine's clock, a little ahead


@pytest.mark.parametrize(
    "fields",
    [
        hop(OTHERS),
        hop(trace="5" * 32),
        hop(at=b"1799999900"),
        {b"x-plimsoll-hop": hop()[b"x-plimsoll-hop"]},
        {b"x-plimsoll-hop": b"t=1799999990.25"},
        {},
    ],
)
def test_other_hops_measure_nothing(fields: dict[bytes, bytes]) -> None:
    assert told(read_labels(fields, NOW, vouching(MEASURED))) == (None, NOBODY)


def test_a_gateway_marks_its_hop_and_the_next_one_believes_it(tmp_path: Path) -> None:
    """Two drivers in a row, as they are wired: what the first sends is what the second reads."""
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    text = document.read(write_policy(tmp_path, f"measured, upstream_secrets: [{secret}]", "mark_hop: true"))
    policy = document.parse(text)
    first = World(policy)
    first.governor.script = {RequestArrived: dispatch}
    sent = dict(first.send(BODY).attempts[0].add_headers)
    second = World(policy)
    second.clock.now = first.clock.now + 3.0
    second.send(BODY, traceparent=sent[b"traceparent"], x_plimsoll_hop=sent[b"x-plimsoll-hop"])
    assert second.arrival.upstream_trust is MEASURED
    assert second.arrival.upstream_time == pytest.approx(3.0)
    assert b"x-plimsoll-hop" in first.send(BODY).attempts[0].drop_headers


# --- header, baggage, start ---


def test_the_start_alone_tells_the_time_where_headers_are_believed() -> None:
    fields = {b"x-request-start": b"t=1799999998"}
    assert told(read_labels(fields, NOW, vouching(HEADER))) == (2.0, HEADER)
    assert told(read_labels(fields, NOW, vouching(SIGNED))) == (None, NOBODY)
    assert told(read_labels(fields, NOW, vouching(NOBODY))) == (None, NOBODY)


def test_baggage_carries_cause_and_time() -> None:
    fields = {
        b"baggage": b"userId=7, plimsoll.cause=nightly%20batch;ttl=3,plimsoll.upstream_ms = 300 ,x=%zz",
        b"x-request-start": b"1799999999",
    }
    labels = read_labels(fields, NOW, vouching(HEADER))
    assert labels.cause == "nightly batch"
    assert labels.upstream_trust is HEADER
    assert labels.upstream_time == pytest.approx(0.3)
    named = read_labels(fields | {b"x-plimsoll-cause": b"rag", b"x-plimsoll-upstream-ms": b"40"}, NOW, vouching(HEADER))
    assert (named.cause, named.upstream_time) == ("rag", 0.04)


@given(st.binary(max_size=60))
def test_no_baggage_breaks_a_request(noise: bytes) -> None:
    baggage = b"plimsoll.cause=" + noise + b",plimsoll.upstream_ms=" + noise
    labels = read_labels({b"baggage": baggage}, NOW, vouching(HEADER))
    assert labels.upstream_time is None or labels.upstream_time >= 0


# --- the secrets ---


def test_secrets_come_from_files_and_the_environment_never_from_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EDGE_SECRET", "e" * 16)
    (tmp_path / "short").write_bytes(b"short")
    assert read_secrets(["EDGE_SECRET", f"{tmp_path}/none", f"{tmp_path}/short", "NOT_SET"]) == [b"e" * 16]
    assert [name for name in ("none", "short", "NOT_SET") if f"{name} " in caplog.text] == ["none", "short", "NOT_SET"]
    faults = document.examine(write_policy(tmp_path, "signed, upstream_secrets: [9f86d081884c7d65]").read_text()).faults
    assert ["service.upstream_secrets[0]" in str(fault) for fault in faults] == [True]
    (fault,) = document.examine(write_policy(tmp_path, "signed").read_text()).faults
    assert "signed needs upstream_secrets" in str(fault)


def write_policy(directory: Path, upstream: str, gateway: str = "") -> Path:
    digest = POLICY.tenants[0].keys[0]
    path = directory / "policy.yaml"
    path.write_text(
        f"""
plimsoll: 1
service: {{upstream_time: {upstream}}}
tiers: [{{name: gold, rank: 0}}]
tenants: [{{name: acme, tier: gold, keys: ["{digest}"]}}]
pools: [{{name: chat, model: m, engine: vllm, replicas: ["http://r1:80"]}}]
gateway: {{{gateway}}}
"""
    )
    return path
