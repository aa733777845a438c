"""The policy document: everything written is read, every mistake is told, nothing crashes."""

from fractions import Fraction
from math import inf
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plimsoll.analytics.forecast import Step
from plimsoll.analytics.knownchanges import known_ahead
from plimsoll.errors import Fault, PolicyError, UsageError
from plimsoll.policy import document
from plimsoll.policy.matrix import TierClasses
from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.policy.policy import Limits, Policy, UpstreamTrust
from plimsoll.policy.presets import PRESETS, preset
from plimsoll.policy.schedulingrules import SpeculationRules

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy.yaml"
TEXT = EXAMPLE.read_text()
KEY = "sha256:" + "ab" * 32
COLUMNS = ("usual", "healthy", "spent")
SMALL = f"""plimsoll: 1
tiers:
  - {{name: gold, rank: 0, share: 50%, objectives: [{{sli: ttft, below: 1s, target: 99%}}]}}
tenants:
  - {{name: acme, tier: gold, keys: ["{KEY}"]}}
pools:
  - {{name: chat, model: m, engine: vllm, replicas: ["http://127.0.0.1:1"]}}
"""


def faults_of(text: str) -> list[Fault]:
    return list(document.examine(text).faults)


def warnings_of(text: str) -> list[Fault]:
    return list(document.examine(text).warnings)


def test_the_example_is_good_and_says_what_the_design_says() -> None:
    policy = document.load(EXAMPLE)
    assert warnings_of(TEXT) == []
    assert policy.service.upstream_time is UpstreamTrust.HEADER
    gold = policy.tier("gold")
    assert gold.objectives == (
        Objective("ttft", Sli.TTFT, 0.8, Fraction(199, 200), Fraction(99, 100)),
        Objective("itl", Sli.ITL, 0.15, Fraction(99, 100)),
        Objective("e2e", Sli.E2E, 20.0, Fraction(99, 100), None, Origin.USER),
        Objective("availability", Sli.AVAILABILITY, inf, Fraction(999, 1000)),
    )
    acme = policy.tenant("acme")
    assert acme.limits == Limits(concurrency=64, tokens_per_minute=400_000)
    assert acme.committed == 3_000_000
    assert [pool.max_prompt_tokens for pool in policy.pools] == [32_768, None, None]
    assert policy.degradation.when.for_ == 180.0
    assert policy.version == document.parse(TEXT).version != document.parse(TEXT + "\n").version


TEN_MISTAKES = f"""plimsoll: 1
service: {{shared_pool: 40%}}
tiers:
  - name: gold
    rank: 0
    share: 80%
    objectives:
      - {{sli: ttft, below: 800, target: 99.5%}}
      - {{sli: e2e, below: 20s, target: 99.5}}
      - {{sli: itl, treshold: 1s, below: 100ms, target: 99%, contract: 99.9%}}
  - {{name: silver, rank: 0, share: 30%}}
tenants:
  - {{name: acme, tier: goald, keys: ["{KEY}"]}}
  - {{name: acme, tier: gold, keys: ["sk-secret-in-the-clear"]}}
pools:
  - {{name: chat, model: m, engine: vllm, replicas: ["10.0.0.1:8000"], min_prompt_tokens: 8k, max_prompt_tokens: 8k}}
"""


def test_ten_mistakes_give_their_messages_at_once() -> None:
    """One message a mistake (there are twelve), each with its line, in the order of the lines; none twice."""
    with pytest.raises(PolicyError) as caught:
        document.parse(TEN_MISTAKES, "policy.yaml")
    found = [(fault.line, fault.path) for fault in caught.value.faults]
    assert found == [
        (2, "service.shared_pool"),
        (3, "tiers"),  # shares above 100 %
        (8, "tiers[0].objectives[0].below"),  # no unit
        (9, "tiers[0].objectives[1].target"),  # a percentage without its sign
        (10, "tiers[0].objectives[2].treshold"),
        (10, "tiers[0].objectives[2].contract"),  # tighter than the target
        (11, "tiers[1].rank"),
        (13, "tenants[0].tier"),
        (14, "tenants[1].name"),
        (14, "tenants[1].keys[0]"),
        (16, "pools[0].replicas[0]"),
        (16, "pools[0].max_prompt_tokens"),
    ]
    text = str(caught.value)
    assert "policy.yaml: 12 faults" in text
    assert "sk-secret" not in text
    assert "did you mean 99.5%?" in text
    assert "800ms" in text


_AT, _KIND, _DAY = "budget.exceptions[0]", "kind: planned_move", "from: 2026-11-02, until: 2026-11-03"

ONE_MISTAKE = [
    ("plimsoll: 1", "plimsoll: 2", "plimsoll"),
    ("plimsoll: 1\n", "", "plimsoll"),
    ("plimsoll: 1", "plimsoll: 1\nbudgets: {}", "budgets"),
    ("plimsoll: 1", "plimsoll: 1\nplimsoll: 1", "plimsoll"),
    ("period: month", "period: fortnight", "service.period"),
    ("Asia/Shanghai", "Mars/Olympus", "service.timezone"),
    ("Asia/Shanghai", "../../etc/passwd", "service.timezone"),
    ("shared_pool: 20%", "shared_pool: .nan", "service.shared_pool"),
    ("upstream_time: header", "upstream_time: headers", "service.upstream_time"),
    ("name: gold", "name: a/b", "tiers[0].name"),
    ("name: silver", "name: gold", "tiers[1].name"),
    ("rank: 0 ", "rank: -1 ", "tiers[0].rank"),
    ("share: 50%", "share: -50%", "tiers[0].share"),
    ("share: 50%", "share: 50", "tiers[0].share"),
    ("share: 50%", "share: 90%", "tiers"),
    ("trickle: 5%", "trickle: .inf", "tiers[2].trickle"),
    ("sheddable: true", "sheddable: yes", "tiers[2].sheddable"),
    ("below: 800ms", "below: 0s", "tiers[0].objectives[0].below"),
    ("below: 800ms", "below: -1s", "tiers[0].objectives[0].below"),
    ("below: 800ms", "below: .inf", "tiers[0].objectives[0].below"),
    ("below: 800ms, ", "", "tiers[0].objectives[0].below"),
    ("target: 99.5%", "target: 100%", "tiers[0].objectives[0].target"),
    ("target: 99.5%", "target: 0", "tiers[0].objectives[0].target"),
    ("target: 99.5%", "target: .nan", "tiers[0].objectives[0].target"),
    ("sli: ttft", "sli: latency", "tiers[0].objectives[0].sli"),
    ("sli: itl, below: 150ms", "sli: ttft, below: 2s", "tiers[0].objectives[1].sli"),
    ("sli: itl,", "sli: availability,", "tiers[0].objectives[1].below"),
    ("sli: itl,", "name: ttft, sli: itl,", "tiers[0].objectives[1].name"),
    ("name: acme", "name: pool", "tenants[0].name"),
    ("name: acme", "name: 17", "tenants[0].name"),
    ("concurrency: 64, t", "concurrency: 0, t", "tenants[0].limits.concurrency"),
    ("400k", "400k tokens", "tenants[0].limits.tokens_per_minute"),
    ("3M per month", "3M per year", "tenants[0].committed"),
    ("requests_per_minute", "request_per_minute", "tenants[1].limits.request_per_minute"),
    ("{queue: 200}", "[queue]", "tenants[2].limits"),
    ("8b\n    engine: vllm", "8b\n    engine: llama", "pools[2].engine"),
    ("http://10.0.0.2:8000", "http://10.0.0.1:8000/", "pools[0].replicas[1]"),
    ("http://10.0.0.2:8000", "ftp://10.0.0.2", "pools[0].replicas[1]"),
    ("http://10.0.0.2:8000", "http://me:secret@10.0.0.2", "pools[0].replicas[1]"),
    ("http://10.0.0.2:8000", "http://10.0.0.2:99999", "pools[0].replicas[1]"),
    ("http://10.0.0.2:8000", "http://10.0.0.2 :80", "pools[0].replicas[1]"),
    ("http://10.0.0.2:8000", "http://bü.example:80", "pools[0].replicas[1]"),
    ("min_prompt_tokens: 32k", "min_prompt_tokens: 64k", "pools"),
    ("max_concurrency: 8", "max_concurrency: 1.5", "pools[2].max_concurrency"),
    ("degrade_target: true", "degrade_target: false", "degradation.levels"),
    ("degrade_target: true", "engine_key: $KEY\n    degrade_target: true", "pools[2].engine_key"),
    ("warn_at: 80%", "warn_at: 99%", "budget.warn_at"),
    ("warn_at: 80%", "warn_at: 80%, hysteresis: 80%", "budget.hysteresis"),
    ("warn_at: 80%", "warn_at: 80%, demotion_floor: tin", "budget.demotion_floor"),
    ("warn_at: 80%", "warn_at: 80%, borrow_cap: -5%", "budget.borrow_cap"),
    ("warn_at: 80%", "warn_at: 80%, exceptions: [{kind: party, from: 2026-11-01, until: 2026-11-02}]", f"{_AT}.kind"),
    ("warn_at: 80%", f"warn_at: 80%, exceptions: [{{{_KIND}, until: 2026-11-02}}]", f"{_AT}.from"),
    ("warn_at: 80%", f"warn_at: 80%, exceptions: [{{{_KIND}, from: 2026-11-31, until: 2026-12-02}}]", f"{_AT}.from"),
    ("warn_at: 80%", f"warn_at: 80%, exceptions: [{{{_KIND}, from: 2026-11-02, until: 2026-11-02}}]", f"{_AT}.until"),
    ("warn_at: 80%", f"warn_at: 80%, exceptions: [{{{_KIND}, {_DAY}, tenants: [acme, nobody]}}]", f"{_AT}.tenants"),
    ("name: acme", "name: acme\n    require_cause: true\n    default_cause: tag", "tenants[0].default_cause"),
    ("name: acme", "name: acme\n    default_cause: été", "tenants[0].default_cause"),
    ("warn_at: 80%", "warn_at: 80%, changes: [{from: 2026-11-01}]", "budget.changes[0].factor"),
    ("warn_at: 80%", "warn_at: 80%, changes: [{from: 2026-11-01, factor: 0}]", "budget.changes[0].factor"),
    ("warn_at: 80%", "warn_at: 80%, changes: [{from: soon, factor: 2}]", "budget.changes[0].from"),
    (
        "warn_at: 80%",
        "warn_at: 80%, changes: [{from: 2026-11-01, factor: 2, objectives: [speed]}]",
        "budget.changes[0].objectives",
    ),
    ("p99_of: itl", "p99_of: availability", "degradation.when.p99_of"),
    ("period: month", "period: 36h", "service.period"),
    ("name: acme", "name: ' '", "tenants[0].name"),
    (
        "085e30d4e4784e45666914568005e07773f8fea65fb46e28b17698781b7520b1",
        "0c28d6922e5b43cf27398eb37d4a94d6664956b895ad43bc1e0574966620e566",
        "tenants[2].keys[0]",
    ),
    ("max_prompt_tokens: 32k", "max_prompt_tokens: 32k\n    max_context: 16k", "pools[0].max_context"),
    ("model: llama-3.1-8b", "model: llama-3.1-8b\n    aliases: [mini, llama-3.1-70b]", "pools[2].aliases"),
    ("model: llama-3.1-8b", "model: llama-3.1-8b\n    adapters: [law, llama-3.1-70b]", "pools[2].adapters"),
    ("model: llama-3.1-8b", "model: llama-3.1-8b\n    adapters: [llama-3.1-8b]", "pools[2].adapters"),
    ("max_prompt_tokens: 32k", "prefill_from: 2k\n    max_prompt_tokens: 32k", "pools[0].prefill_from"),
    ("max_prompt_tokens: 32k", "prefill: ['http://10.0.0.1:8000']\n    max_prompt_tokens: 32k", "pools[0].prefill[0]"),
    ("8b\n    engine: vllm", "8b\n    engine: llamacpp\n    prefill: ['http://10.0.0.30:8000']", "pools[2].prefill"),
    ("[drop_plugins,", "[drop_plugin,", "degradation.levels"),
    ('replicas: ["http://10.0.0.9:8000"]', "replicas: []", "pools[1].replicas"),
    ("limits: {queue: 200}", "limits: {queue: 200}\n  - 5", "tenants[3]"),
    ("above: 200ms, ", "", "degradation.when.above"),
    ("[drop_plugins,", "[drop_plugins, drop_plugins,", "degradation.levels"),
]


@pytest.mark.parametrize(("old", "new", "path"), ONE_MISTAKE)
def test_one_mistake_one_message_at_its_place(old: str, new: str, path: str) -> None:
    assert TEXT.count(old) >= 1
    found = faults_of(TEXT.replace(old, new, 1))
    assert [fault.path for fault in found] == [path]
    assert found[0].line > 0
    assert found[0].message


MORE = [
    ("scheduling: {speculation: {below: 0%}}", "scheduling.speculation.below"),
    ("scheduling: {speculation: {explore: 1}}", "scheduling.speculation.explore"),
    ("plugins: [{settings: {url: 'http://g/check'}}]", "plugins[0].name"),
    ("plugins: [{name: a}]", "plugins[0].settings"),
    ("plugins: [{name: a, settings: {key: GUARD}}]", "plugins[0].settings.url"),
    ("plugins: [{name: a, settings: {url: 'http://g', header: x}}]", "plugins[0].settings.header"),
    ("plugins: [{name: a, settings: {url: 'ftp://g'}}]", "plugins[0].settings.url"),
    ("plugins: [{name: a, settings: {url: 'http://u:p@g'}}]", "plugins[0].settings.url"),
    ("plugins: [{name: a, settings: {url: 'http://g', key: 'sk-1 2'}}]", "plugins[0].settings.key"),
    ("plugins: [{name: a, timeout: 2min, settings: {url: 'http://g'}}]", "plugins[0].timeout"),
    ("plugins: [{name: a, simulated: 2s, settings: {url: 'http://g'}}]", "plugins[0].simulated"),
    ("plugins: [{name: a, on_error: ignore, settings: {url: 'http://g'}}]", "plugins[0].on_error"),
    ("plugins: [{name: a, concurrency: 0, settings: {url: 'http://g'}}]", "plugins[0].concurrency"),
    ("plugins: [{name: a, kind: nobodys}]", "plugins[0].kind"),
    ("plugins: guard", "plugins"),
    ("scheduling: {hedging: {budget: 6%}}", "scheduling.hedging.budget"),
    ("degradation: {when: {saturation: 0%}, levels: [drop_plugins]}", "degradation.when.saturation"),
    ("scheduling: fifo", "scheduling"),
    ("scheduling: {order: random}", "scheduling.order"),
    ("scheduling: {output_quantile: 100%}", "scheduling.output_quantile"),
    ("scheduling: {strict: true, oversubscription: 5%}", "scheduling.oversubscription"),
    ("scheduling: {oversubscription: 5%, preemption_risk: 1%}", "scheduling.preemption_risk"),
    ("scheduling: {reserve_kv: false, preemption_risk: 1%}", "scheduling.preemption_risk"),
    ("scheduling: {strict: true, preemption_risk: 1%}", "scheduling.preemption_risk"),
    ("scheduling: {preemption_risk: 60%}", "scheduling.preemption_risk"),
    ("scheduling: {retries: 100}", "scheduling.retries"),
    ("scheduling: {bypasses: -1}", "scheduling.bypasses"),
    ("scheduling: {bypass_for: -1s}", "scheduling.bypass_for"),
    ("scheduling: {classes: [{name: log, causes: []}]}", "scheduling.classes[0].causes"),
    ("budget: {spent_forbids: [hedgin]}", "budget.spent_forbids"),
    ("budget: {healthy_allows: [lending, lending]}", "budget.healthy_allows"),
    ("gateway: {max_body: 12}", "gateway.max_body"),
    ("gateway: {max_body: lots}", "gateway.max_body"),
    ("gateway: {timeouts: {connect: 0s}}", "gateway.timeouts.connect"),
    ("gateway: {timeouts: {conect: 1s}}", "gateway.timeouts.conect"),
    ("gateway: {probe_every: }", "gateway.probe_every"),
    ("gateway: {cors_origins: [1]}", "gateway.cors_origins[0]"),
    ("service: {censored_limit: 0%}", "service.censored_limit"),
    ("degradation: 7", "degradation"),
]


@pytest.mark.parametrize(("line", "path"), MORE)
def test_mistakes_in_the_other_sections(line: str, path: str) -> None:
    assert [fault.path for fault in faults_of(SMALL + line)] == [path]


MATRIX = f"""plimsoll: 1
tenants: [{{name: acme, tier: gold, keys: ["{KEY}"]}}]
tiers:
  - {{name: gold, rank: 0, classes: {{usual: [fast]}}, objectives: [{{sli: ttft, below: 200ms, target: 99%}}]}}
  - {{name: bronze, rank: 1, classes: {{usual: [slow, fast], spent: [slow]}}}}
pools:
  - {{name: a, sla_class: fast, built_for: 120ms, model: m70, aliases: [any], engine: vllm, replicas: ["http://a"]}}
  - {{name: b, sla_class: slow, built_for: 800ms, model: m3, aliases: [any], engine: vllm, replicas: ["http://b"]}}
"""


def test_a_tier_that_waits_for_nothing_lends_nothing() -> None:
    assert document.parse(SMALL.replace("share: 50%", "share: 50%, wait: 0s"), "x").tiers[0].wait == 0.0
    assert document.parse(SMALL, "x").tiers[0].wait is None
    (fault,) = faults_of(SMALL.replace("share: 50%", "share: 50%, wait: -1s"))
    assert fault.path == "tiers[0].wait"


def test_the_matrix_of_tiers_and_classes() -> None:
    policy = document.parse(MATRIX)
    assert policy.tiers[1].classes == TierClasses(("slow", "fast"), ("slow", "fast"), ("slow",))
    assert [(pool.sla_class, pool.built_for) for pool in policy.pools] == [("fast", 0.12), ("slow", 0.8)]
    assert warnings_of(MATRIX) == []
    more = '  - {name: c, sla_class: none, model: m3, engine: vllm, replicas: ["http://c"]}\n'
    assert [fault.message for fault in warnings_of(MATRIX + more)] == [
        f"tier 'gold' may use no pool of 'm3' ({state}): such requests are refused" for state in COLUMNS
    ]
    slow = MATRIX.replace("usual: [fast]", "usual: [fast, slow]")
    assert "promises 200ms and may be sent to pool 'b', built for 800ms" in warnings_of(slow)[0].message


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("usual: [fast]", "usual: [fastt]", "tiers"),
        ("usual: [fast]", "healthy: [fast]", "tiers[0].classes.usual"),
        ("usual: [fast]", "usual: [fast, fast]", "tiers[0].classes.usual"),
        ("usual: [fast]", "often: [fast]", "tiers[0].classes.often"),
        ("usual: [fast]", "usual: [fast], p99_of: ttft", "tiers[0].classes.p99_of"),
        ("usual: [fast]", "within: 1s, p99_of: itl", "tiers[0].classes.p99_of"),
        ("usual: [fast]", "within: 1s, spent: [fast]", "tiers[0].classes.usual"),
        ("usual: [fast]", "within: -1s", "tiers[0].classes.within"),
        ("usual: [fast]", "usual: []", "tiers[0].classes.usual"),
        ("spent: [slow]", "spent: []", "tiers[1].classes.spent"),
        ("sla_class: slow, ", "", "tiers"),
        ("aliases: [any], engine: vllm, replicas: [\"http://b", "aliases: [m70], engine: vllm, replicas: [\"http://b",
         "pools[1].aliases"),
        ("built_for: 800ms", "built_for: 0s", "pools[1].built_for"),
    ],
)  # fmt: skip
def test_mistakes_in_the_matrix(old: str, new: str, path: str) -> None:
    assert old in MATRIX
    assert path in {fault.path for fault in faults_of(MATRIX.replace(old, new, 1))}


BEST = MATRIX.replace("usual: [fast]", "within: 120ms").replace("fast, built_for", "fast, quality: 82, built_for")
BEST = BEST.replace("slow, built_for", "slow, quality: 60%, built_for")


def test_the_best_within_a_time() -> None:
    policy = document.parse(BEST)
    assert policy.tiers[0].classes == TierClasses((), (), (), 0.12, "ttft")
    assert [pool.quality for pool in policy.pools] == [82.0, 0.6]
    assert warnings_of(BEST) == []
    (fault,) = faults_of(BEST.replace("slow, quality: 60%, built_for", "slow, built_for"))
    assert (fault.path, fault.message) == (
        "pools[1].quality", "missing: tier 'gold' has 'any' served by the best within 120ms"
    )  # fmt: skip
    alone = BEST.replace(" aliases: [any],", "").replace("quality: 82, ", "").replace("quality: 60%, ", "")
    (warning,) = warnings_of(alone)
    assert "no model has two" in warning.message, "and no quality is needed"
    both = BEST.replace("within: 120ms", "usual: [fast, slow], spent: [slow], within: 40ms, p99_of: tpot")
    assert document.parse(both).tiers[0].classes == TierClasses(
        ("fast", "slow"), ("fast", "slow"), ("slow",), 0.04, "tpot"
    )
    unclassed = BEST.replace("sla_class: slow, ", "").replace("[slow, fast], spent: [slow]", "[fast]")
    assert document.parse(unclassed).pools[1].sla_class == "", "by quality an alias may mean two models"


LADDER = "degradation: {when: {above: 1s}, levels: [small_model], small_model: front}\n"


def test_the_small_model_on_the_front() -> None:
    assert document.parse(BEST + LADDER).degradation.small_model == "front"
    assert document.parse(MATRIX).degradation.small_model == "target"
    (fault,) = faults_of(MATRIX + LADDER)
    assert fault.path == "degradation.small_model"
    assert "missing: pools[0].quality (a), pools[1].quality (b)" in str(fault)
    assert "nearest: front" in str(faults_of(BEST + LADDER.replace("front", "frond"))[0])
    (warning,) = warnings_of(BEST + LADDER.replace("[small_model]", "[batch_of_one]"))
    assert (warning.path, warning.message) == ("degradation.small_model", "never asked: levels have no small_model")


def test_whether_a_pool_drafts() -> None:
    told = SMALL.replace("engine: vllm", "engine: vllm, speculation: on") + "scheduling: {speculation: {below: 25%}}"
    policy = document.parse(told)
    assert (policy.pools[0].speculation, policy.scheduling.speculation) == ("on", SpeculationRules(Fraction(1, 4)))
    switched = told.replace("speculation: on", "speculation: switch")
    assert [fault.path for fault in faults_of(switched)] == ["pools[0].speculation"]
    assert document.parse(switched.replace("vllm", "llamacpp")).pools[0].speculation == "switch"
    assert [fault.path for fault in warnings_of(SMALL + "scheduling: {speculation: {}}")] == ["scheduling.speculation"]


def test_an_alias_of_several_models_wants_classes_for_all_of_them() -> None:
    text = (
        MATRIX.replace("sla_class: slow, ", "").replace("slow, fast", "fast").replace("spent: [slow]", "spent: [fast]")
    )
    assert [fault.path for fault in faults_of(text)] == ["pools[1].aliases"]


def test_an_engine_that_tells_no_capacity_needs_a_limit() -> None:
    openai = SMALL.replace("vllm", "openai")
    assert [fault.path for fault in faults_of(openai)] == ["pools[0].engine"]
    llamacpp = SMALL.replace("vllm", "llamacpp")
    assert faults_of(llamacpp) == []
    assert [fault.path for fault in warnings_of(llamacpp)] == ["pools[0].engine"]
    assert warnings_of(llamacpp.replace("engine:", "max_concurrency: 4, engine:")) == []


def test_profiles_are_looked_at_where_somebody_can() -> None:
    text = TEXT.replace("h100-llama70b-tp4", "h1000")
    assert faults_of(text) == []
    told = document.examine(text, lambda name, *_: f"no profile named {name!r}" if name == "h1000" else "").faults
    assert [(fault.path, fault.message) for fault in told] == [("pools[0].profile", "no profile named 'h1000'")]
    assert told[0].line > 0
    assert document.examine(TEXT, lambda *_: "").faults == ()


def test_a_rolling_window_has_no_exchange() -> None:
    rolling = SMALL + "service: {period: 30d}"
    policy = document.parse(rolling)
    assert policy.service.period == "30d"
    assert policy.tiers[0].exchange == Fraction(0)
    both = rolling.replace("rank: 0", "rank: 0, exchange: 0.7")
    assert [fault.path for fault in faults_of(both)] == ["tiers[0].exchange"]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("share: 50%", "share: 0.5%", "tiers[0].share"),
        ("target: 99%", "target: 0.99%", "tiers[0].objectives[0].target"),
        ("below: 1s", "below: 1h", "tiers[0].objectives[0].below"),
        ("below: 1s", "from: user, below: 1s", "tiers[0].objectives[0].from"),
        (f', keys: ["{KEY}"]', "", "tenants[0].name"),
        ("engine: vllm", "min_prompt_tokens: 4k, engine: vllm", "pools"),
        ("[{sli", "[{sli: itl, below: 1s, target: 99%, from: user}, {sli", "tiers[0].objectives[0].from"),
        ("target: 99%", "target: 9%", "tiers[0].objectives[0].target"),
        ("plimsoll: 1", "plimsoll: 1\ngateway: {timeouts: {total: 9s}}", "gateway.timeouts.total"),
        ("plimsoll: 1", "plimsoll: 1\ndegradation: {levels: [batch_of_one]}", "degradation.levels"),
    ],
)
def test_likely_slips_are_warnings(old: str, new: str, path: str) -> None:
    text = SMALL.replace(old, new)
    assert text != SMALL
    assert faults_of(text) == []
    assert path in [fault.path for fault in warnings_of(text)]


def test_availability_is_promised_by_default_and_stands_last() -> None:
    assert document.parse(SMALL).tiers[0].objectives[-1] == Objective(
        "availability", Sli.AVAILABILITY, inf, Fraction(999, 1000)
    )
    own = SMALL.replace("[{sli", "[{sli: availability, target: 99.99%}, {sli")
    objectives = document.parse(own).tiers[0].objectives
    assert [objective.sli for objective in objectives] == [Sli.TTFT, Sli.AVAILABILITY]
    assert objectives[-1].target == Fraction(9999, 10_000)


@pytest.mark.parametrize(
    "text", ["", "   ", "a: [", "- 1", "42", "a: b: c", "\t", "%YAML 9", "a: &x [*x]", "[" * 1000, "\0"]
)
def test_what_is_no_policy_is_told_in_one_message(text: str) -> None:
    assert len(faults_of(text)) >= 1


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_damage_to_a_policy_crashes_its_reading(data: st.DataObject) -> None:
    """Lines dropped, doubled or overwritten: either a policy or faults, never another exception."""
    lines = TEXT.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        junk = data.draw(
            st.sampled_from(["", "- ", "x", "  name: {}", "    rank: [0]", "  - 5", "? [a]: b", "  <<: *a", "~"])
        )
        lines[at] = data.draw(st.sampled_from([junk, lines[at] + " " + junk, lines[at] + "\n" + lines[at]]))
    examination = document.examine("\n".join(lines))
    assert (examination.policy is None) == bool(examination.faults)


@settings(max_examples=15, deadline=None)
@given(st.text(max_size=40))
@example(".nan")
@example("1e999")
def test_no_value_crashes_its_reading(value: str) -> None:
    for old in ("800ms", "99.5%", "32k", "3M per month", "month", "http://10.0.0.9:8000"):
        examination = document.examine(TEXT.replace(old, value, 1))
        assert (examination.policy is None) == bool(examination.faults)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        document.load(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(UsageError, match="UTF-8"):
        document.load(tmp_path / "latin.yaml")


def test_a_file_that_is_hardly_a_policy_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(UsageError, match="hardly a policy"):
        document.load(path)


@pytest.mark.parametrize(("text", "path"), [("tiers: []", "tiers"), ("tiers: {}", "tiers"), ("", "tiers")])
def test_without_tiers_there_is_no_policy(text: str, path: str) -> None:
    assert [fault.path for fault in faults_of(f"plimsoll: 1\ntenants: []\npools: []\n{text}")] == [path]


def test_nobody_of_that_name() -> None:
    policy = document.parse(SMALL)
    assert (policy.tier("gold").rank, policy.tenant("acme").tier) == (0, "gold")
    with pytest.raises(KeyError):
        policy.tier("lead")
    with pytest.raises(KeyError):
        policy.tenant("nobody")


def test_presets_change_the_rules_and_nothing_else() -> None:
    policy = document.load(EXAMPLE)
    assert preset(policy, "default") == policy
    fcfs = preset(policy, "fcfs")
    assert not fcfs.scheduling.tiers_matter
    changed = [name for name in Policy.__struct_fields__ if getattr(fcfs, name) != getattr(policy, name)]
    assert changed == ["scheduling"]
    assert document.parse(SMALL + "scheduling: fcfs").scheduling == PRESETS["fcfs"]
    with pytest.raises(UsageError, match="known: default, fcfs"):
        preset(policy, "lifo")


def test_windows_of_exception_begin_by_the_clock_of_the_service() -> None:
    windows = "[{kind: model_upgrade, from: 2026-11-02T02:00, until: 2026-11-02T04:00Z, tenants: [acme]}]"
    (window,) = document.parse(TEXT.replace("warn_at: 80%", f"warn_at: 80%, exceptions: {windows}")).budget.exceptions
    assert (window.kind, window.tenants) == ("model_upgrade", ("acme",))
    assert (window.from_at, window.until_at) == (1_793_556_000.0, 1_793_592_000.0)  # 02:00 in Shanghai is 18:00 UTC


def test_known_changes_concern_whom_they_name() -> None:
    changes = "[{from: 2026-11-02T02:00, factor: 1.5}, {from: 2026-11-03, factor: 80%, tenants: [acme]}]"
    rules = document.parse(TEXT.replace("warn_at: 80%", f"warn_at: 80%, changes: {changes}")).budget
    assert [each.factor for each in rules.changes] == [Fraction(3, 2), Fraction(4, 5)]
    assert known_ahead(rules, "acme", "ttft").steps[0] == Step(1_793_556_000.0, 1.5)
    assert [len(known_ahead(rules, tenant, "ttft").steps) for tenant in ("acme", "beta")] == [2, 1]
