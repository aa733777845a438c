"""Reads a workload file: synthetic tenants and traces, all faults at once, each with its line.

duration: 10min
model: llama-3.1-70b
tenants:
  - {name: acme, rate: 2, prompt: {median: 800, sigma: 1}, output: {median: 200, sigma: 0.7}}
  - {name: noisy, rate: 20, starts: 3min, ends: 6min, burstiness: 4}
traces:
  - {file: azure_conv.csv.gz, tenants: [{name: bolt, rate: 50%}]}

`workloadtenant.py` reads one tenant, `workloadtrace.py` one trace, `workloadclock.py` instants like "Tuesday 09:00".
"""

from plimsoll.errors import PolicyError
from plimsoll.policy.section import Faults, Section, compose
from plimsoll.sim.outage import Outage, Upgrade
from plimsoll.sim.tracetraffic import TraceTraffic
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloadclock import Clock, clock_of, instant
from plimsoll.sim.workloadtenant import tenant_phases
from plimsoll.sim.workloadtrace import ReadTrace, no_traces, trace_of


def parse(text: str, source: str, read_trace: ReadTrace = no_traces) -> Workload:
    """The workload in a YAML text; `read_trace` opens the traces that it names.

    Raises PolicyError with all faults (`source` names the text in them), TraceError where a trace's row breaks a rule.
    """
    faults = Faults()
    top = compose(text, faults)
    workload = Workload((), 0.0)
    if top is not None:
        workload = _workload(top, read_trace)
        top.done()
    found = [fault for fault in faults.all if not fault.warning]
    if found:
        raise PolicyError(source, found)
    return workload


def _workload(top: Section, read_trace: ReadTrace) -> Workload:
    clock = clock_of(top)
    traces = _traces(top, clock, read_trace)
    longest = max((trace.ends_at for trace in traces), default=0.0)
    duration = top.duration("duration", longest or 600.0)
    model = top.text("model")
    names: set[str] = set()
    tenants = []
    for section in top.sections("tenants"):
        phases = tenant_phases(section, clock)
        if phases[0].name in names:
            section.fault("name", f"{phases[0].name!r} is here twice")
        names.add(phases[0].name)
        tenants += phases
        section.done()
    if not tenants and not traces and not top.faults.all:
        top.fault("tenants", "none is given, and no traces", "tenants: [{name: acme, rate: 2}]")
    outages: tuple[Outage | Upgrade, ...] = (*_outages(top, clock), *_upgrades(top, clock))
    return Workload(tuple(tenants), duration, model, traces, clock.start_at, outages)


def _traces(top: Section, clock: Clock, read_trace: ReadTrace) -> tuple[TraceTraffic, ...]:
    traces = []
    for section in top.sections("traces"):
        traces.append(trace_of(section, clock, read_trace))
        section.done()
    return tuple(traces)


def _outages(top: Section, clock: Clock) -> tuple[Outage, ...]:
    found: list[Outage] = []
    for section in top.sections("outages"):
        for key in ("at", "replica", "lasts"):
            section.required(key)
        outage = Outage(instant(section, "at", clock, 0.0), section.text("replica"), section.duration("lasts", 1.0))
        if any(map(outage.meets, found)):
            section.fault("at", "overlaps with, or touches, an outage before it")
        found.append(outage)
        section.done()
    return tuple(found)


def _upgrades(top: Section, clock: Clock) -> tuple[Upgrade, ...]:
    found: list[Upgrade] = []
    for section in top.sections("upgrades"):
        for key in ("at", "pool", "profile", "each"):
            section.required(key)
        at, each = instant(section, "at", clock, 0.0), section.duration("each", 1.0)
        found.append(Upgrade(at, section.text("pool"), section.text("profile"), each))
        section.done()
    return tuple(found)
