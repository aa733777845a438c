"""Whom the first page names, and where its diagnosis leads on to."""

from msgspec.structs import replace

from plimsoll.console.diagnoseview import diagnose_view
from plimsoll.console.leads import lead_of
from plimsoll.console.seen import Seen
from plimsoll.diagnosis.case import cause_of
from plimsoll.diagnosis.diagnose import Mechanism
from plimsoll.diagnosis.findings import Findings, Matrix, TenantFindings
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.policy.document import parse

POLICY = parse("""\
plimsoll: 1
tiers:
- {name: gold, rank: 0, objectives: [{sli: ttft, below: 1s, target: 99%}]}
- {name: bronze, rank: 1, objectives: [{sli: e2e, below: 60s, target: 90%}]}
tenants: [{name: acme, tier: gold}, {name: crane, tier: gold}, {name: eel, tier: bronze}]
pools: [{name: chat, model: m, engine: vllm, replicas: ["http://r1"]}]
""")


def of(
    tenant: str, num_bad: int, kind: CauseKind | None = None, subject: str = "", likelihood: float = 0.5
) -> TenantFindings:
    named = (cause_of(kind, subject, (likelihood, (), ())),) if kind else ()
    return TenantFindings(
        tenant, 1000, num_bad, None, None, (), {}, num_bad, "before", (), 0.0, Mechanism.UNKNOWN, named, ()
    )


def found(*tenants: TenantFindings) -> Findings:
    return Findings("log", 3000, 0.0, 60.0, Matrix((), (), ()), tenants, None, ())


def named(*tenants: TenantFindings) -> str | None:
    lead = lead_of(found(*tenants), POLICY)
    return lead.tenant if lead else None


OWN, NEIGHBOUR = CauseKind.OWN_SURGE, CauseKind.NEIGHBOUR_SURGE


def test_a_likely_cause_goes_before_none_and_none_is_named_where_nothing_is_wrong() -> None:
    assert named(of("acme", 400), of("crane", 40, CauseKind.UPSTREAM, "", 0.9)) == "crane"
    assert named(of("acme", 5)) is None
    assert named(of("acme", 50)) == "acme"
    assert named() is None


def test_who_suffers_from_another_goes_before_that_other() -> None:
    """eel missed more by number; acme, which can do nothing about it, more of what it was promised."""
    assert named(of("eel", 54, OWN, "eel", 0.9), of("acme", 7, NEIGHBOUR, "eel", 0.7)) == "acme"


def test_unless_it_hardly_suffers() -> None:
    assert named(of("acme", 900, OWN, "acme", 0.7), of("eel", 2, NEIGHBOUR, "acme", 0.9)) == "acme"


def test_a_diagnosis_leads_on_to_what_the_culprit_does_where_that_hurts_it_too() -> None:
    victim, culprit = of("acme", 70, NEIGHBOUR, "eel", 0.7), of("eel", 54, OWN, "eel", 0.9)

    def next_link(*tenants: TenantFindings) -> tuple[str, str]:
        view = diagnose_view(Seen(POLICY), found(*tenants), "acme", None)
        return view.culprit, view.culprit_href

    assert next_link(victim, culprit) == ("eel", "/diagnose?tenant=eel")
    assert next_link(victim, of("eel", 3)) == ("eel", "/tenants/eel")
    assert next_link(victim) == ("eel", "/tenants/eel")
    itself = replace(victim, causes=culprit.causes, tenant="eel")
    assert diagnose_view(Seen(POLICY), found(itself), "eel", None).culprit == ""


def test_a_replica_is_no_culprit_with_a_page_of_its_own() -> None:
    slow = of("acme", 70, CauseKind.SLOW_REPLICA, "http://r1", 0.9)
    assert diagnose_view(Seen(POLICY), found(slow), "acme", None).culprit == ""
