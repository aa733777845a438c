"""Pages over HTTP on a recorded incident: what they say, in both languages, and whom they refuse."""

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
