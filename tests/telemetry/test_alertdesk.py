"""What each receiver is told, and when: each thing once, in time, whatever fails in between."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.policy.alerts import AlertChannel, AlertRules, Severity
from plimsoll.telemetry.alertdesk import Alert, AlertDesk, Message

EVERYTHING = AlertChannel("desk", "DESK", Severity.TICKET)
URGENT = AlertChannel("phone", "PHONE", Severity.PAGE)


def alert(key: str, severity: Severity = Severity.PAGE, text: str = "") -> Alert:
    return Alert(key, severity, f"{key} burns{text}", f"all about {key}{text}")


def desk(*channels: AlertChannel, **rules: float) -> AlertDesk:
    return AlertDesk(AlertRules(channels or (EVERYTHING,), **rules))  # type: ignore[arg-type]


def told(of: AlertDesk, at: float) -> list[str]:
    """Deliver what is due; "channel: title" of each message."""
    messages = of.due(at)
    for message in messages:
        of.delivered(message, at)
    return [f"{message.channel}: {message.title}" for message in messages]


def test_each_thing_is_told_once_and_its_end_too() -> None:
    one = desk(resolve_after=300.0)
    one.update(0, [alert("a")])
    assert told(one, 0) == ["desk: [firing] a burns"]
    for minute in range(1, 10):
        one.update(60.0 * minute, [alert("a", text=f" {minute}")])
        assert told(one, 60.0 * minute) == [], "whatever its text says now"
    one.update(600, [])
    assert told(one, 600) == [], "it may be back in a minute"
    one.update(840, [])
    assert told(one, 840) == ["desk: [resolved] a burns"]
    one.update(900, [])
    assert told(one, 900) == []


def test_what_flaps_is_one_alert() -> None:
    one = desk(resolve_after=300.0)
    for minute in range(20):
        one.update(60.0 * minute, [alert("a")] if minute % 3 == 0 else [])
        assert told(one, 60.0 * minute) == (["desk: [firing] a burns"] if minute == 0 else [])


def test_channels_take_what_is_urgent_enough_for_them() -> None:
    both = desk(EVERYTHING, URGENT, resolve_after=0.0)
    both.update(0, [alert("a", Severity.TICKET)])
    assert told(both, 0) == ["desk: [firing] a burns"]
    both.update(60, [alert("a", Severity.PAGE)])
    assert told(both, 60) == ["desk: [worse] a burns", "phone: [firing] a burns"]
    both.update(120, [alert("a", Severity.TICKET)])
    assert told(both, 120) == ["phone: [resolved] a burns"], "no page any more, but still a ticket"
    both.update(180, [])
    assert told(both, 180) == ["desk: [resolved] a burns"]


def test_what_lasts_becomes_a_page() -> None:
    both = desk(EVERYTHING, URGENT, escalate_after=3600.0)
    both.update(0, [alert("a", Severity.TICKET)])
    assert told(both, 0) == ["desk: [firing] a burns"]
    both.update(3540, [alert("a", Severity.TICKET)])
    assert told(both, 3540) == []
    both.update(3600, [alert("a", Severity.TICKET)])
    assert told(both, 3600) == ["desk: [worse] a burns", "phone: [firing] a burns"]


def test_what_still_holds_is_told_again_after_a_time() -> None:
    one = desk(repeat_every=7200.0)
    for hour in range(5):
        one.update(3600.0 * hour, [alert("a")])
        expected = {0: ["desk: [firing] a burns"], 2: ["desk: [still firing] a burns"]}
        assert told(one, 3600.0 * hour) == expected.get(hour, expected[2] if hour == 4 else [])


def test_a_flood_comes_as_few_messages_and_nothing_is_lost() -> None:
    one = desk(per_minute=3)
    one.update(0, [alert(f"a{i:02}", Severity.PAGE if i == 17 else Severity.TICKET) for i in range(20)])
    messages = one.due(0)
    assert [len(each.news) for each in messages] == [1, 1, 18]
    assert messages[0].title == "[firing] a17 burns", "the most urgent by itself"
    assert messages[2].title == "[18 firing, 0 resolved] error budgets"
    assert messages[2].body.count("\n") == 17
    for message in messages:
        one.delivered(message, 0)
    one.update(10, [alert("late")])
    assert one.due(10) == [], "three in this minute already"
    assert [each.title for each in one.due(61)] == ["[firing] late burns"]


def test_a_failed_message_is_sent_again_with_growing_pauses_as_what_is_true_then() -> None:
    one = desk(resolve_after=0.0, per_minute=1000)
    one.update(0, [alert("a")])
    attempts, at = [], 0.0
    while at < 1000:
        for message in one.due(at):
            attempts.append(at)
            one.failed(message, at)
        at += 1.0
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    one.update(1500, [alert("a"), alert("b")])
    assert told(one, 1500) == ["desk: [firing] a burns", "desk: [firing] b burns"]
    one.update(1501, [alert("c")])
    for message in one.due(1501):
        one.failed(message, 1501)
    one.update(1502, [])
    assert told(one, 1600) == ["desk: [resolved] a burns", "desk: [resolved] b burns"], "of c nobody ever heard"


def test_one_dead_channel_holds_up_no_other() -> None:
    both = desk(EVERYTHING, URGENT)
    both.update(0, [alert("a")])
    for message in both.due(0):
        (both.failed if message.channel == "desk" else both.delivered)(message, 0)
    both.update(1, [alert("a"), alert("b")])
    assert told(both, 1) == ["phone: [firing] b burns"]


def test_after_a_restart_nothing_is_told_twice_and_ends_are_told() -> None:
    before = desk(resolve_after=60.0)
    before.update(0, [alert("a"), alert("b")])
    told(before, 0)
    after = desk(resolve_after=60.0)
    after.believe(before.believed(), 100)
    after.update(110, [alert("a")])
    assert told(after, 110) == []
    after.update(170, [alert("a")])
    assert told(after, 170) == ["desk: [resolved] b burns"]


STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from("abcdefgh")), st.booleans(), st.sampled_from([30.0, 60.0, 200.0])), max_size=25
)


@given(STEPS, st.integers(1, 4))
def test_every_receiver_ends_up_believing_what_holds(
    steps: list[tuple[set[str], bool, float]], per_minute: int
) -> None:
    """Whatever comes, goes and fails: when messages arrive again, belief and truth become one, within the rate."""
    one = desk(EVERYTHING, URGENT, resolve_after=0.0, per_minute=per_minute)
    at, sent = 0.0, []
    for keys, works, pause in steps:
        at += pause
        one.update(at, [alert(key, Severity.PAGE if key < "d" else Severity.TICKET) for key in sorted(keys)])
        for message in one.due(at):
            sent.append((message.channel, at))
            (one.delivered if works else one.failed)(message, at)
    held = sorted(steps[-1][0]) if steps else []
    for _ in range(3):
        at += 400.0
        told(one, at)
    believed = {name: sorted(each.key for each in alerts) for name, alerts in one.believed().items()}
    assert believed == {"desk": held, "phone": [key for key in held if key < "d"]}
    for channel in ("desk", "phone"):
        instants = [when for name, when in sent if name == channel]
        assert all(sum(when - 60 < each <= when for each in instants) <= per_minute for when in instants)


def test_a_message_says_how_urgent_it_is() -> None:
    one = desk(resolve_after=0.0, per_minute=1)
    one.update(0, [alert("a", Severity.TICKET)])
    (first,) = one.due(0)
    assert first.severity is Severity.TICKET
    one.delivered(first, 0)
    one.update(100, [alert("b", Severity.PAGE)])
    (mixed,) = one.due(100)
    assert isinstance(mixed, Message)
    assert mixed.severity is Severity.PAGE
    assert mixed.title == "[1 firing, 1 resolved] error budgets"
    one.delivered(mixed, 100)
    one.update(200, [])
    assert [each.severity for each in one.due(200)] == [None]
