"""Every SLO file of other projects: nothing is dropped in silence, and what is written as OpenSLO reads the same."""

from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from plimsoll.errors import UsageError
from plimsoll.policy.account import Account, join
from plimsoll.policy.foreign import Value
from plimsoll.policy.openslo_form import to_openslo
from plimsoll.policy.slospec import Imported, Kind, decode, encode
from plimsoll.policy.specfiles import read_documents, read_files, read_text
from plimsoll.policy.yamltext import dump
from tests.policy.slo_files import every_text, imported, texts

READ = ("OpenSLO v1", "OpenSLO v1alpha", "Sloth", "Sloth resource", "Pyrra", "slo-generator v2", "slo-generator v1")


def formats_of(found: Imported) -> set[str]:
    return {name for names in found.sources.values() for name in names.split(", ")}


def test_every_format_is_among_the_files_and_most_slos_are_read() -> None:
    found = [imported(path) for path in texts()]
    assert {name for each in found for name in formats_of(each)} >= set(READ)
    assert sum(len(each.slos) for each in found) > 170
    kinds = {slo.indicator.kind for each in found for slo in each.slos if slo.indicator is not None}
    assert kinds == set(Kind)


def test_every_file_is_read_or_says_why_not() -> None:
    for path in texts():
        found = imported(path)
        told = found.slos or found.definitions or found.losses or found.faults
        assert told or found.sources == {path: "empty"}, path


@pytest.mark.long
def test_large_files_of_other_formats_are_told_as_lost_whole() -> None:
    for path in every_text().keys() - texts().keys():
        found = read_text(every_text()[path], path)
        assert found.losses or found.faults, path
        assert not found.slos, path


def test_every_file_round_trips_through_openslo_or_says_what_it_lost() -> None:
    num_whole = 0
    for path in texts():
        found = imported(path)
        objects, losses = to_openslo(found)
        again = read_files([(path, dump(objects))]) if objects else Imported()
        lost = {loss.path for loss in losses}
        assert again.slos == tuple([slo for slo in found.slos if slo.meta.name not in lost]), path
        assert again.definitions == found.definitions, path
        assert not again.faults, path
        assert not again.losses, path
        num_whole += not losses and bool(found.slos)
    assert num_whole > 100


def test_the_json_form_reads_back_as_the_same_value() -> None:
    for path in texts():
        assert decode(encode(imported(path)), path) == imported(path)


def test_json_that_is_something_else_is_refused() -> None:
    for text in (b"", b"{}", b'{"plimsoll_slos": 2, "imported": {}}', b"\xff", b'{"plimsoll_slos": 1, "imported": 3}'):
        with pytest.raises(UsageError, match=r"there\.json"):
            decode(text, "there.json")


def scalars(node: Any, path: str) -> list[tuple[ScalarNode, str]]:
    if isinstance(node, MappingNode):
        return [found for key, value in node.value for found in scalars(value, join(path, str(key.value)))]
    if isinstance(node, SequenceNode):
        return [found for i, item in enumerate(node.value) for found in scalars(item, f"{path}[{i}]")]
    return [(node, path)]


def read_nodes(nodes: list[Any], path: str) -> Imported:
    account = Account(path)
    several = len(nodes) > 1
    values = [Value(node, f"#{i + 1}" if several else "", account) for i, node in enumerate(nodes)]
    return read_documents(
        [item for value in values for item in (value.each_item() if value.is_list else [value])], account
    )


def another(node: ScalarNode) -> str:
    if str(node.tag).endswith(":bool"):
        return "false" if node.value.lower() == "true" else "true"
    if str(node.tag).endswith((":int", ":float")):
        return f"{float(node.value) * 0.75 + 0.01:g}"
    return f"{node.value}1"


def test_no_value_is_dropped_in_silence() -> None:
    """Change any one value of any file: the result differs, or the value lies in a part that is told as lost."""
    num_changed = 0
    for path, text in texts().items():
        before = imported(path)
        if before.faults or len(text) > 6000 or not formats_of(before) & set(READ):
            continue
        nodes = [node for node in YAML(typ="safe", pure=True).compose_all(text) if node is not None]
        prefixes = [f"#{i + 1}" if len(nodes) > 1 else "" for i in range(len(nodes))]
        plain = read_nodes(nodes, path)
        spots = [spot for root, prefix in zip(nodes, prefixes, strict=True) for spot in scalars(root, prefix)]
        for node, place in spots:
            if str(node.tag).endswith(":null"):
                continue
            was, node.value = node.value, another(node)
            after = read_nodes(nodes, path)
            node.value = was
            changed = (after.slos, after.definitions, after.faults) != (plain.slos, plain.definitions, plain.faults)
            assert changed or any(place.startswith(loss.path) for loss in plain.losses), f"{path}: {place}"
            num_changed += changed
    assert num_changed > 1500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 2) | st.sampled_from(["", "x", "openslo/v1", "28d"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "name", "metric", "query", "total", "a/b"]), below, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    found = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += [(value, key), *places(item)]
    return found


SPECIMENS = {
    "v1": "openslo-go-sdk/pkg/openslo/v1/examples/slos.yaml",
    "policies": "openslo-go-sdk/pkg/openslosdk/test_data/inline/inputs/v1_slo.yaml",
    "alpha": "openslo-go-sdk/pkg/openslo/v1alpha/examples/slos.yaml",
    "sloth": "sloth/examples/getting-started.yml",
    "crd": "sloth/examples/k8s-home-wifi.yml",
    "pyrra": "pyrra/examples/pyrra-connect-latency.yaml",
    "google": "slo-generator/samples/prometheus/slo_prom_metrics_latency_distribution_cut.yaml",
    "google1": "slo-generator/tests/unit/fixtures/slo_config_v1.yaml",
}


@pytest.mark.parametrize("specimen", SPECIMENS)
@settings(max_examples=12, deadline=None)
@given(choice=st.integers(0, 10_000), value=JSON)
def test_a_damaged_file_gives_faults_with_places_never_an_exception(specimen: str, choice: int, value: Any) -> None:
    path = SPECIMENS[specimen]
    document = YAML(typ="safe", pure=True).load(texts()[path].rpartition("\n---\n")[2])
    spots = places(document)
    holder, key = spots[choice % len(spots)]
    holder[key] = value
    out = StringIO()
    YAML(typ="safe", pure=True).dump(document, out)
    found = read_text(out.getvalue(), path)
    assert found.slos or found.definitions or found.faults or found.losses
    assert all(fault.path for _, fault in found.faults)
    objects, _ = to_openslo(read_files([(path, out.getvalue())]))
    assert not objects or not read_files([(path, dump(objects))]).losses


@given(st.text(alphabet="a:-[]{}\n \"'&*!%@#|>,?0.\t\u0000é", max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_text_gives_an_answer(text: str) -> None:
    found = read_text(text, "any")
    assert not found.slos


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [1", "line 1: (document): neither YAML nor JSON"),
        ("a: 1\na: 2\nversion: prometheus/v1", "line 2: a: given twice, first in line 1"),
        ("- 3", "line 1: [0]: must be a section of keys"),
        ("apiVersion: openslo/v3", "line 1: apiVersion: 'openslo/v3' is no format read here"),
        ("&a\nb: *a", "(document): nested too deeply"),
    ],
)
def test_what_is_no_slo_file_says_so(text: str, fault: str) -> None:
    assert any(fault in str(found) for _, found in read_text(text, "x").faults)


def test_an_slo_given_twice_is_a_fault_naming_both_files() -> None:
    path = "sloth/examples/getting-started.yml"
    found = read_files([("one.yml", texts()[path]), ("two.yml", texts()[path])])
    assert len(found.slos) == 1
    assert [(source, "one.yml" in fault.message) for source, fault in found.faults] == [("two.yml", True)]


def test_a_reference_is_followed_across_files() -> None:
    slo = "openslo-go-sdk/pkg/openslosdk/test_data/inline/inputs/custom_config.yaml"
    sli = """
apiVersion: openslo/v1
kind: SLI
metadata: {name: my-sli, displayName: Mine}
spec: {thresholdMetric: {metricSource: {metricSourceRef: prom, spec: {query: up}}}}
"""
    (alone,) = read_files([("a", texts()[slo])]).slos
    assert (alone.indicator, alone.indicator_ref) == (None, "my-sli")
    (found,) = read_files([("a", texts()[slo]), ("b", sli)]).slos
    assert found.indicator is not None
    assert (found.indicator.meta.display_name, found.indicator.queries["metric"].ref) == ("Mine", "prom")
    assert found.indicator_ref == ""
