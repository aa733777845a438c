"""`plimsoll …`: one sub-command a file, imported only when it is called, so that each starts fast."""

import os
import signal
import sys
from typing import TextIO

from cyclopts import App

from plimsoll import __version__
from plimsoll.cli.output import Terminal
from plimsoll.errors import PlimsollError

app = App(
    name="plimsoll",
    version=__version__,
    help="Govern the tail latency, fairness and error budgets of LLM inference for several tenants.",
    suppress_keyboard_interrupt=False,
)
COMMANDS: dict[str, str] = {
    "demo": "Play ten minutes of eight tenants on three engines; at minute 3 one turns noisy. Watch.",
    "check": "Read a policy, tell everything that is wrong with it at once, and show what it promises when it is good.",
    "key": "Make an API key: give the first line to the tenant, put the second into its `keys`. Neither is kept here.",
    "serve": "Serve the OpenAI API in front of the policy's replicas, by the policy's rules.",
    "top": "Watch a running gateway: P50, P99, ratio, attainment, budget and queue by tenant; decisions streaming by.",
    "console": "Show what Plimsoll knows in a browser: who is in danger, why, when budgets end, how much load is left.",
    "report": "Show what happened by tenant, tier and cause: endings, latencies, what was promised and kept, budgets.",
    "tails": "Show P50, P95 and P99 with intervals by any labels and over time; P99 ÷ P50 first.",
    "capability": "Show what replicas and models can do: steady speed, stalls, and their place between quality and "
    "latency.",
    "predictions": "Show by replica how far predicted times to first token and between tokens were off from what came.",
    "diagnose": "Say why requests were slow: who was crowded out by whom, since when, and the likeliest root cause.",
    "analyze": "Report tails and causes from logs of others: OTLP spans, Envoy, vLLM, LiteLLM, llama-server, CSV …",
    "explain": "Explain one request: what happened when, where its time went, who was beside it, what it broke.",
    "journal": "Show what was decided, when and why: policies, budgets, every request that did not simply complete.",
    "runs": "Show agents' runs: the requests of a session as one, its total time judged, and where the time went.",
    "emulate": "Serve emulated vLLM replicas: real HTTP, real waiting, words without meaning.",
    "replay": "Send a trace's traffic to an OpenAI-compatible service, on time whatever it answers (open loop).",
    "headroom": "Tell how much more of a mix (or of one tier or tenant) can be taken until the first objective breaks, "
    "and where.",
    "workload": "Learn a workload file from a request log or trace, or show what traffic a workload file makes.",
    "simulate": "Run the live policy on a virtual clock, against engines modelled step by step.",
    "sweep": "Simulate a grid of policies or workloads to one table; a stopped sweep goes on where it was.",
    "compare": "Compare two runs, or a run and a live log: what differs, by how much, and is it more than luck?",
    "calibrate": "Fit an engine profile to a request log or to step timings, and print how well it fits.",
    "learn": "Learn from a pool's log how far off its predictions of TTFT are, and keep that where it wins on held-out "
    "data.",
    "ledger": "Prove that the ledger balances and agrees with the log, or rebuild it from the log.",
    "project": "Bring the ledger and the request log's Parquet files up to the journal of a data directory.",
    "otel": "Send a data directory's requests and decisions to an OpenTelemetry collector: traces, logs, metrics.",
    "import_": "Read SLOs of OpenSLO (v1, v1alpha), Sloth, Pyrra and slo-generator, and tell what could not be read.",
    "export": "Write a policy's objectives, or SLOs imported from other tools, as OpenSLO v1.",
    "dashboards": "Write Grafana dashboards over /metrics: the line, tenants, diagnose, cache, replicas, decisions.",
    "rules": "Write Prometheus rules for a policy: burn rates by tenant and objective, alerts, P99 ÷ P50.",
}
"""Each is a module of this room with a function of the same name, which is imported only when it is called; hence its
line of help stands here too (a test holds the two equal). `import` is a word of Python, so its module has a dash below.
"""

BUDGET_COMMANDS: dict[str, str] = {
    "status": "Show where every error budget stands: planned, spent by charge, burn, hours left, loans, state.",
    "explain": "Explain a tenant's error budgets: each figure with its formula and inputs, and what was done.",
    "statement": "Write a tenant's statement of a month: all movements on its accounts, and balances that sum to zero.",
    "close": "Close a month: cover what was spent, give loans back, let the rest expire, exchange it for headroom.",
    "override": "Let nothing be done about a tenant's budgets for a time: no degradation, no lower rank.",
    "correct": "Correct what a budget spent: give events back that were not bad, or charge them to somebody else.",
    "undo": "Undo an override, an automatic action until its month's end, loans, or a correction; all stays on record.",
    "forecast": "Foretell what each error budget will spend in the next 24 hours and when it will be gone.",
    "backtest": "Check forecasts of error budgets against a log: coverage, and losses beside those of naive forecasts.",
}
"""Of `plimsoll budget …`: each is a function of its name in a module `budget_…` of this room."""

POLICY_COMMANDS: dict[str, str] = {
    "explain": "Print the path that a request would take now, and why: limits, pool, reservation, queue, replicas.",
}
"""Of `plimsoll policy …`: as above, in modules `policy_…`."""

budget = App(
    name="budget", help="Error budgets: what they will spend, when they will be gone, and whether that is known."
)
app.command(budget)
for _name, _help in COMMANDS.items():
    app.command(f"plimsoll.cli.{_name}:{_name}", name=_name.rstrip("_"), help=_help)
policy = App(name="policy", help="What a policy would do: the path of a request, asked of a file or a running gateway.")
app.command(policy)
for _name, _help in POLICY_COMMANDS.items():
    policy.command(f"plimsoll.cli.policy_{_name}:{_name}", name=_name, help=_help)
for _name, _help in BUDGET_COMMANDS.items():
    budget.command(f"plimsoll.cli.budget_{_name}:{_name}", name=_name, help=_help)


def main() -> None:
    """Run the command line; a fault that we know, or a file that cannot be used, is one line and exit 2.

    Where whoever read the output has left (`| head`), it ends quietly with the status that a shell gives to SIGPIPE.
    """
    try:
        app.console = Terminal()  # of help
        try:
            app(sys.argv[1:])
        finally:
            for stream in _streams():
                stream.flush()  # here, and not when the interpreter has ended
    except PlimsollError as error:
        print(f"plimsoll: {error}", file=sys.stderr)  # noqa: T201 - the command line's own voice
        sys.exit(2)
    except BrokenPipeError:
        _let_go()
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"plimsoll: {error.filename}: {error.strerror}", file=sys.stderr)  # noqa: T201 - as above
        sys.exit(2)


def _streams() -> list[TextIO]:
    """Those that were open when we began."""
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]


def _let_go() -> None:
    """What a reader that left has not read goes nowhere, instead of failing once more when the interpreter ends."""
    for stream in _streams():
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
