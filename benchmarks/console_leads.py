"""Does the console lead to the culprit? From the front page of labelled incidents, at most three prominent links.

`python -m benchmarks.console_leads [SEEDS EACH] [KIND …] [odd|even] [from=SEED]`. The order of leads was chosen on even
seeds, odd ones (another engine, other traffic) are for reporting. Seeds 1 to 5 were looked at to mend rules, so they no
longer are: report from 7 on. An incident counts as found where a page that was reached names the injected cause, and
the injected tenant or replica where there is one. Incidents in which nobody missed five objectives are counted apart:
nothing was to be seen.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.episodes import KINDS, Episode, episode
from benchmarks.recordedlogs import keep_episode
from plimsoll.cli.console import readers
from plimsoll.console.app import Console
from plimsoll.console.guarding import Guard
from plimsoll.console.store import Store

MOST: Final = 3  # links followed
_LEAD: Final = re.compile(r"<(?:a|section)[^>]*data-(?:lead|found)[^>]*>")


async def walk(root: Path) -> list[dict[str, str]]:
    """What each page on the way says: tenant, cause, subject, path."""
    store = Store(root, readers(), None)
    console = Console(store, Guard("127.0.0.1", ""))
    found: list[dict[str, str]] = []
    url = f"http://127.0.0.1:{await console.listen('127.0.0.1', 0)}"
    try:
        version = 0
        while not (store.findings.made_at and store.safe.made_at):
            version = await store.changed(version, 1.0)
        path: str | None = "/"
        async with aiohttp.ClientSession() as session:
            for _ in range(MOST + 1):
                if path is None:
                    break
                async with session.get(url + path) as answer:
                    text = await answer.text()
                told = list(_LEAD.findall(text))
                found += [_attributes(tag) | {"path": path} for tag in told]
                path = next((_attributes(tag).get("href") for tag in told if "data-lead" in tag), None)
    finally:
        await console.close()
    return found


def _attributes(tag: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}


def reached(incident: Episode, pages: list[dict[str, str]]) -> bool:
    """Whether a page names the right cause, and whom it should."""
    kinds = {kind.value for kind in incident.kinds}
    right = [page for page in pages if page.get("data-cause") in kinds]
    return any(incident.subject in {"", page.get("data-subject", ""), page.get("data-tenant", "")} for page in right)


def incidents(kinds: list[str], num: int, first: int) -> Iterator[tuple[str, int, Episode]]:
    for kind in kinds:
        for seed in range(first, first + 2 * num, 2):
            yield kind, seed, episode(kind, seed)


def main() -> None:
    arguments = [each for each in sys.argv[1:] if not each.startswith("--")]
    first = 0 if "even" in arguments else 1
    first = next((int(each.removeprefix("from=")) for each in arguments if each.startswith("from=")), first)
    arguments = [each for each in arguments if each not in {"odd", "even"} and not each.startswith("from=")]
    num = int(arguments[0]) if arguments else 2
    kinds = arguments[1:] or [kind for kind in KINDS if kind != "no_fault"]
    right = judged = unseen = 0
    for kind, seed, incident in incidents(kinds, num, first):
        num_bad: dict[str, int] = {}
        for record in incident.records:
            if any(verdict.num_bad for verdict in record.verdicts):
                num_bad[record.tenant] = num_bad.get(record.tenant, 0) + 1
        if max(num_bad.values(), default=0) < 5:
            unseen += 1
            print(f"{kind:24} seed {seed:3}  nobody missed five objectives", flush=True)
            continue
        with tempfile.TemporaryDirectory() as home:
            keep_episode(incident, Path(home) / "data")
            pages = asyncio.run(walk(Path(home) / "data"))
        found = reached(incident, pages)
        judged, right = judged + 1, right + found
        said = (
            f"{pages[0].get('data-tenant')}: {pages[0].get('data-cause')} {pages[0].get('data-subject')}"
            if pages
            else "–"
        )
        print(f"{kind:24} seed {seed:3}  {'found' if found else 'MISSED'}  first page: {said}", flush=True)
    share = right / max(1, judged)
    print(f"reached in at most {MOST} links: {right} of {judged} ({share:.0%}); {unseen} with nothing to see")


if __name__ == "__main__":
    main()
