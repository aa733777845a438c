"""Pages over HTTP on a recorded incident: what they say, in both languages, and whom they refuse."""

import re

import httpx
import pytest

from plimsoll.console.words import chosen
from tests.console.recorded import TOKEN, Serving


def test_the_first_page_names_victim_culprit_and_cause(served: Serving) -> None:
    text = httpx.get(served.url).text
    assert 'data-tenant="acme" data-cause="neighbour_long_prompts" data-subject="eel"' in text
    assert "a neighbour&#39;s long prompts" in text
    assert "chat" in text
    assert "<script src=" in text


def test_every_answer_keeps_itself_to_itself(served: Serving) -> None:
    for path in ("/", "/formulas", "/static/console.js", "/nowhere"):
        headers = httpx.get(served.url + path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_name_from_elsewhere_is_not_answered(served: Serving) -> None:
    assert httpx.get(served.url, headers={"host": "evil.example"}).status_code == 421
    assert httpx.get(served.url, headers={"host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize("origin", ["", "null", "https://evil.example", "http://127.0.0.1:1"])
def test_what_changes_anything_must_come_from_a_page_of_ours(served: Serving, origin: str) -> None:
    headers = {"origin": origin} if origin else {}
    answer = httpx.post(served.url + "/journal/undo", data={"key": "x", "token": TOKEN}, headers=headers)
    assert answer.status_code == 403


def test_choices_are_kept_and_lead_back_here_only(served: Serving) -> None:
    answer = httpx.get(served.url + "/choose?lang=zh&back=/tenants?window=6h")
    assert (answer.status_code, answer.headers["location"]) == (303, "/tenants?window=6h")
    assert "lang=zh" in answer.headers["set-cookie"]
    for back in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil.example"):
        assert httpx.get(served.url + "/choose", params={"lang": "zh", "back": back}).headers["location"] == "/"


def test_the_language_is_the_browsers() -> None:
    assert chosen("", "zh-CN,zh;q=0.9,en;q=0.8") == "zh"
    assert chosen("", "de,en;q=0.4,zh;q=0.2") == "en"
    assert chosen("zh", "en") == "zh"
    assert chosen("xx", "zh;q=x, fr") == "en"


def test_news_come_as_a_stream(served: Serving) -> None:
    with httpx.stream("GET", served.url + "/events") as answer:
        first = next(answer.iter_lines())
    assert first.startswith('data: {"version":')
    assert '"state":"recorded"' in first


def read(served: Serving, path: str, language: str = "en") -> str:
    answer = httpx.get(served.url + path, headers={"accept-language": language}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_page_is_served_in_both_languages(served: Serving, language: str) -> None:
    for path in ("/", "/tenants", "/cache", "/replicas", "/journal?span=all", "/what-if", "/capability", "/formulas"):
        text = read(served, path, language)
        assert ("载重线" in text) is (language == "zh")
        assert "style=" not in text
        assert "http://www" not in text.replace("http://www.w3.org", "")


def test_every_formula_that_is_linked_is_there(served: Serving) -> None:
    anchors = set(re.findall(r'<dt id="([^"]+)"', read(served, "/formulas")))
    for path in ("/", "/tenants", "/tenants/acme", "/diagnose", "/cache", "/replicas", "/capability"):
        linked = set(re.findall(r'href="/formulas#([^"]+)"', read(served, path)))
        assert linked <= anchors
        assert linked


def test_a_tenants_page_shows_its_promises_and_charts(served: Serving) -> None:
    text = read(served, "/tenants/acme?window=1h")
    for title in ("Time to first token", "Burn by objective", "Spent by charge", "Error budget this month"):
        assert title in text
    assert text.count("<svg viewBox") >= 5
    assert "n = 957" in text


def test_the_diagnosis_leads_down_to_one_request(served: Serving) -> None:
    text = read(served, "/diagnose?tenant=acme")
    assert "data-found" in text
    request = re.findall(r"/requests/(req-[0-9a-f]{16})", text)[0]
    one = read(served, f"/requests/{request}")
    assert "dispatched to" in one
    assert "others&#39; prompts" in one or "its own prompt" in one
    assert "派发到" in read(served, f"/requests/{request}", "zh")


def test_what_is_not_there_is_said_on_a_page(served: Serving) -> None:
    for path in ("/tenants/nobody", "/requests/req-0000000000000000", "/tenants/acme/statement?month=never"):
        answer = httpx.get(served.url + path, timeout=60)
        assert answer.status_code == 404
        assert "This page cannot be shown." in answer.text
    escaped = httpx.get(served.url + "/tenants/%3Cscript%3Ealert(1)%3C%2Fscript%3E").text
    assert "<script>alert" not in escaped


def test_without_the_token_nothing_is_done(served: Serving) -> None:
    origin = {"origin": served.url}
    for path, form in (("/journal/undo", {"key": "override/x"}), ("/tenants/acme/override", {"lasts": "1h"})):
        answer = httpx.post(served.url + path, data={**form, "why": "test", "token": "a guess"}, headers=origin)
        assert answer.status_code == 403


def test_an_override_is_made_seen_and_undone(served: Serving) -> None:
    origin = {"origin": served.url}
    form = {"lasts": "1h", "why": "a test", "token": TOKEN}
    made = httpx.post(served.url + "/tenants/acme/override", data=form, headers=origin, timeout=60)
    assert made.status_code == 200
    key = re.findall(r"override/acme/all/\d+", made.text)[0]
    assert f'data-key="{key}"' in read(served, "/journal?kind=decision&span=all")
    undone = httpx.post(
        served.url + "/journal/undo", data={"key": key, "why": "a test", "token": TOKEN}, headers=origin, timeout=60
    )
    assert undone.status_code == 200
    assert f'data-key="{key}"' not in read(served, "/journal?kind=decision&span=all")
