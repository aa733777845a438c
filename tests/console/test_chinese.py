"""On Chinese pages nothing that Plimsoll says stays English: evidence of every cause, journal, charts, timelines.

Not asked for: names that people or Python chose (tenants, objectives, units, commands) and what a program that failed
told us.
"""

import re
from html import unescape

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.console import diagnoseview
from plimsoll.console.pages import Frame, render
from plimsoll.console.sayings import said
from plimsoll.console.seen import Seen
from plimsoll.diagnosis.diagnose import Mechanism
from plimsoll.diagnosis.findings import Findings
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.slo.budget import BudgetHealth
from tests.console.recorded import Serving
from tests.diagnosis.cases import every_cause

PAGES = (
    *("/", "/tenants", "/tenants/acme?window=1h", "/tenants/eel?window=30d", "/diagnose?tenant=acme"),
    *("/diagnose?tenant=eel", "/cache", "/replicas", "/journal?span=all", "/what-if", "/capability"),
)
NAMES = re.compile(
    r"""plimsoll\ [a-z]+ | Plimsoll\ [\d.\w]+
    | prefix\ hits | P99\ ÷\ P50 | https?://\S+ | /[A-Za-z0-9/_.-]+ | req-[0-9a-f]+
    | ttft,\ tpot | [a-z_]+\.[a-z_.\[\]]+ | [a-z]+_[a-z_]+ | \(gold\) | \(silver\) | \(bronze\)""",
    re.VERBOSE,
)
"""Commands, versions, addresses, keys of the policy, objectives, tiers."""
SENTENCE = re.compile(r"[A-Za-z][a-z']+(?:,?[ \u00a0][a-z'()]+)+")
"""Two English words or more in a row."""


def english(html: str) -> list[str]:
    """What is English in a page's texts, titles and labels; commands and code are as they are."""
    html = re.sub(r"<(script|style|code|option)\b.*?</\1>", "", html, flags=re.DOTALL)
    html = re.sub(r'lang="en"[^>]*>English', "", html)
    texts = re.findall(r">([^<]+)<", html)
    texts += re.findall(r'(?:title|aria-label|placeholder|data-lost)="([^"]*)"', html)
    found = [sentence for text in texts for sentence in SENTENCE.findall(NAMES.sub("", unescape(text)))]
    return sorted(set(found))


def read(served: Serving, path: str) -> str:
    answer = httpx.get(served.url + path, headers={"accept-language": "zh"}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_english_is_seen() -> None:
    assert english("<p>many loads failed</p>") == ["many loads failed"]
    assert english('<a title="no such tenant">租户 eel</a>') == ["no such tenant"]


@pytest.mark.parametrize("path", PAGES)
def test_pages(served: Serving, path: str) -> None:
    assert english(read(served, path)) == []


def test_one_request(served: Serving) -> None:
    number = re.findall(r"/requests/(req-[0-9a-f]{16})", read(served, "/diagnose?tenant=acme"))[0]
    assert english(read(served, f"/requests/{number}")) == []


def test_the_evidence_of_every_cause(served: Serving) -> None:
    causes = every_cause()
    assert {each.kind for each in causes} == set(CauseKind)
    assert served.store is not None
    seen, found = served.store.seen(), served.store.findings.value
    assert isinstance(found, Findings)
    for cause in causes:
        for mechanism in Mechanism:
            tenant = replace(found.tenants[0], causes=(cause,), mechanism=mechanism, notes=NOTES)
            assert english(page(seen, replace(found, tenants=(tenant,)))) == [], cause


NOTES = (
    "5 of 9 slow requests ran in pools without an engine profile, or got no token: their engine's time is unknown. "
    "Give the pool a profile, or make one with plimsoll calibrate.",
    "2 policies held in this window.",
)


def page(seen: Seen, found: Findings) -> str:
    view = diagnoseview.diagnose_view(seen, found, found.tenants[0].tenant, None)
    frame = Frame("diagnose", "/diagnose", "zh", "", "recorded", None, "UTC", "/data", "", 1)
    return render("diagnose.html", frame, view)


JOURNAL = (
    "policy 0123abcd came into force",
    "3 refusals found no room in the log: the disk was full",
    *[
        f"budget of ttft_p99: {each.words} (was {other.words}), no plan"
        for each in BudgetHealth
        for other in BudgetHealth
    ],
    "budget of ttft_p99: no plan, no plan",
    "of 3 replicas it is known how often their streams stall",
    "http://r1 is to go from pool chat (2 left, work for 1.5) to long (has 1, work for 2.5): demand",
    "http://r1 goes from pool chat (2 left, work for 1.5) to long (has 1, work for 2.5): none_up",
    "http://r1 did not empty in time to go from pool chat (2 left, work for 1.5) to long (has 1, work for 2.5): bounds",
    "budget of ttft_p99: degraded (was warn), 93.1% of the planned grant spent, its non-critical requests are degraded",
    "budget of ttft_p99: warn (was healthy), 71.0% of the planned grant spent",
    "budget of ttft_p99: healthy, 1.0% of the planned grant spent",
    "budget of ttft_p99: warn, no plan",
    "budget of ttft_p99: exhausted (was degraded), 120.0% of the planned grant spent",
    "close of 2026-11: headroom 3: ttft_p99 has the least left",
    "close of 2026-11: headroom 0, queued one rank lower: ttft_p99 is exhausted by our own doing",
    "provisional of 2026-11: headroom 0: no base concurrency",
    "provisional of 2026-11: headroom 0: ttft_p99 is not judged",
    "provisional of 2026-11: headroom 0: nothing was granted",
    "provisional of 2026-11: headroom 0: ttft_p99 is exhausted",
    "provisional of 2026-11: headroom 0: ttft_p99 is exhausted, at the demotion floor",
    "pool pool/2026-11/5, 4 ledger entries over 12",
    "pool pool/2026-11/5",
    "override: key override/acme/all/1, tenant acme, at 1.5, until_at 9.5, by root, why because",
    "action: at 1.5, tenant acme, objective ttft_p99, before warn, after degraded, spent 3, planned 4, dry_run False",
    "undo: key override/acme/all/1, at 1.5, by root, why because, period 2026-11",
    "correction: key c/1, tenant acme, objective ttft, period 2026-11, num 4, charged ours, to client, by a, why b",
)


@pytest.mark.parametrize("text", JOURNAL)
def test_the_journal(text: str) -> None:
    assert not re.search(r"[a-z]{2,} [a-z]{2,}", NAMES.sub("", said(text, "zh")).replace("ttft_p99", "")), text


TIMELINES = (
    "arrived: 4 prompt tokens, chat", "upstream began (no cause)", "upstream began (agent)",
    "dispatched to http://r1, attempt 2", "dispatched to a replica that the log does not name", "first token",
    "first token, 3 prompt tokens from the prefix cache", "completed (done), 4 tokens out",
    "rejected (queue_full), 0 tokens out", "the replica had not reported",
    "3 running, 4 waiting, KV usage unknown, as it said 0.3 s before the dispatch",
    "? running, ? waiting, KV 40% full, as it said 0.3 s before the dispatch",
    "ttft, charged ours", "ttft, charged to nobody",
    "Its pool has no engine profile, or it got no token: what the engine did is not told apart.",
    "It was not streamed: when its first token came is reckoned back from its end.",
)  # fmt: skip


@pytest.mark.parametrize("text", TIMELINES)
def test_timelines(text: str) -> None:
    told = said(text, "zh")
    assert re.search(r"[\u4e00-\u9fff]", told), told
    assert not re.search(r"[a-z]{2,} [a-z]{2,}", told), told
