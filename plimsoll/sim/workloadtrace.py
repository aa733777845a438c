"""Reads one trace of a workload file: the file, whose requests its rows become, and at what rate."""

from collections.abc import Callable, Sequence
from math import inf

from plimsoll.governor.events import Criticality
from plimsoll.policy.section import Section
from plimsoll.sim.tracesender import Sender
from plimsoll.sim.tracetraffic import TraceTraffic
from plimsoll.sim.workloadclock import Clock, instant
from plimsoll.sim.workloadlengths import number
from plimsoll.sim.workloadtenant import FASTEST, max_output
from plimsoll.storage.tracerow import TraceRow

ReadTrace = Callable[[str, bool], Sequence[TraceRow]]
"""(file as the workload names it, whether rows that break a rule are left out and counted) → rows."""


def no_traces(_file: str, _leave_out: bool) -> Sequence[TraceRow]:
    """For whoever only looks at the file: every trace is empty."""
    return ()


def trace_of(section: Section, clock: Clock, read_trace: ReadTrace) -> TraceTraffic:
    """One trace; whatever is wrong with its keys goes to the section's faults."""
    senders: list[Sender] = []
    for inner in section.sections("tenants"):
        senders.append(_sender(inner))
        inner.done()
    if senders and not any(sender.weight for sender in senders if not sender.of) and not all(s.of for s in senders):
        section.fault("tenants", "every weight is 0")
    file = section.text("file")
    speed = number(section, "speed", 1.0, most=FASTEST)
    if not speed:
        section.fault("speed", "must be above 0")
    rate = number(section, "rate", 1.0, most=FASTEST)
    trace = TraceTraffic(
        file=file,
        senders=tuple(senders),
        speed=speed or 1.0,
        starts=instant(section, "starts", clock, 0.0),
        repeats=section.flag("repeats", False),
        spread=section.duration("spread", 10.0),
        poisson=section.flag("poisson", False),
    )
    leave_out = section.flag("leave_out_faulty", False)
    if not section.required("file") or section.faults.all:
        return trace
    trace = trace.filled(read_trace(file, leave_out))
    nameless = not senders and any(not row.tenant for row in trace.rows)
    if nameless:
        section.fault("tenants", f"{file} does not say whose its requests are", "tenants: [{name: acme}]")
        return trace
    return trace if rate == 1.0 else trace.scaled(rate)


def _sender(section: Section) -> Sender:
    section.required("name")
    return Sender(
        name=section.text("name"),
        of=section.text("of"),
        weight=number(section, "weight", 1.0, most=1_000_000),
        rate=number(section, "rate", 1.0, most=FASTEST),
        prompt=_factor(section, "prompt"),
        output=_factor(section, "output"),
        model=section.text("model"),
        tier=section.text("tier"),
        cause=section.text("cause"),
        criticality=section.choice("criticality", Criticality, Criticality.CRITICAL).value,
        max_output=max_output(section),
        streaming=section.flag("streaming", True),
        patience=section.duration("patience", inf),
    )


def _factor(section: Section, key: str) -> float:
    factor = number(section, key, 1.0, most=1000)
    if not factor:
        section.fault(key, "must be above 0")
    return factor or 1.0
