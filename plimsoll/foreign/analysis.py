"""Files of others → a data directory of ours, read once from end to end in bounded memory.

Reading order: `analyse` (all files), `_read_file` (one), `formats.recognise` (which format), `mapping.Reading` (columns
to fields), `rows.Rows` (judged rows).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from plimsoll.errors import TraceError, UsageError
from plimsoll.foreign import formats, llamaserver
from plimsoll.foreign.account import Account, ColumnUse, Counting, FileAccount
from plimsoll.foreign.endings import OPEN
from plimsoll.foreign.logfile import LogFile
from plimsoll.foreign.mapping import Columns, Reading
from plimsoll.foreign.names import MOST, Names
from plimsoll.foreign.rows import Rows
from plimsoll.foreign.visit import LeftOut, Visit
from plimsoll.policy import document
from plimsoll.policy.yamltext import compact
from plimsoll.storage.datadir import DataDirectory, write_whole
from plimsoll.storage.written import RowFiles

ACCOUNT: Final = "analysis.json"
"""In the data directory: what was made of each file."""
TIER: Final = "all"
"""The tier of whoever has none."""
Progress = Callable[[LogFile, int], None]
"""Told now and then: the file being read (`place` of its `size` bytes) and the rows so far."""
_TELL_EVERY: Final = 2000
_RELATIVE: Final = 1e8
"""UTC epoch s of 1973: whoever arrived before counts from some start of its own."""


def analyse(
    paths: Sequence[Path],
    into: Path,
    *,
    mapping: Columns | None = None,
    policy_text: str | None = None,
    progress: Progress = lambda _file, _num: None,
) -> Account:
    """Read the files into a new data directory. `policy_text` judges; without it only failures are judged.

    Raises UsageError where a file or the directory makes no sense, TraceError where a format is not known or nothing
    is left.
    """
    if (into / "plimsoll.json").exists():
        raise UsageError(f"{into} holds a log already: name another --out, or remove it")
    files = [LogFile(path) for path in paths]
    labels = _labels([file.path for file in files])
    chosen = [formats.recognise(file, mapped=bool(mapping)) for file in files]
    work = _Analysis(DataDirectory(into), mapping or {}, policy_text, progress)
    accounts = tuple([work.read(file, label, *form) for file, label, form in zip(files, labels, chosen, strict=True)])
    return work.finish(accounts)


def account_of(directory: Path) -> Account | None:
    """What was made of the files of an analysed directory; None where it is none."""
    try:
        return msgspec.json.decode((directory / ACCOUNT).read_bytes(), type=Account)
    except (OSError, msgspec.DecodeError):
        return None


class _Analysis:
    def __init__(self, paths: DataDirectory, mapping: Columns, policy_text: str | None, progress: Progress) -> None:
        self._paths = paths
        self._mapping = mapping
        self._policy_text = policy_text
        self._policy = document.parse(_policy_text({}, ()) if policy_text is None else policy_text)
        self._given = {tenant.name: tenant.tier for tenant in self._policy.tenants} if policy_text else {}
        self._progress = progress
        self._tenants, self._tiers = Names(MOST), Names(MOST // 100 + 1)
        self._tier_of: dict[str, str] = {}
        self._rows = Rows(self._policy)
        self._first_at = float("inf")
        paths.create()
        self._out = RowFiles(paths)

    def read(self, file: LogFile, label: str, form: formats.Format, reason: str) -> FileAccount:
        """One file; `label` stands for a pool where no column names one."""
        counting = Counting()
        reading = Reading({**form.named, **self._mapping}, form.ending if "status" not in self._mapping else None)
        streams, number = False, 0
        for number, cells in form.rows(file):
            if isinstance(cells, str):
                counting.leave_out(number, cells)
                continue
            try:
                visit = reading.visit(cells)
            except LeftOut as left_out:
                counting.leave_out(number, left_out.rule)
                continue
            streams = streams or visit.ttft is not None
            counting.keep(visit)
            counting.num_open += (visit.outcome, visit.reason) == OPEN
            self._write(label, visit, streams)
            if counting.num_rows % _TELL_EVERY == 0:
                self._progress(file, self._rows.num)
        if file.damage:
            counting.leave_out(number + 1, "is cut off where the packed file is damaged, and what followed is lost")
        self._progress(file, self._rows.num)
        return self._account(file, form, reason, reading, counting)

    def _write(self, label: str, visit: Visit, streams: bool) -> None:
        tenant = self._tenants.of(visit.tenant)
        tier = self._tier_of.get(tenant)
        if tier is None:
            tier = self._given.get(tenant) or (self._tiers.of(visit.tier) if visit.tier else TIER)
            self._tier_of[tenant] = tier
        self._out.add(self._rows.row(visit, tenant, tier, visit.pool or label, streams=streams))
        self._first_at = min(self._first_at, visit.arrived_at)

    def _account(
        self, file: LogFile, form: formats.Format, reason: str, reading: Reading, counting: Counting
    ) -> FileAccount:
        notes = list(form.told)
        if counting.num_open:
            notes.append(
                f"{counting.num_open:,} were still open when the log ended: their waits are cut off there, and count "
                "as interrupted."
            )
        if file.damage:
            notes.append(f"Damaged: {file.damage}. What is whole before was read; how many rows followed is not known.")
        if form.name == "llama-server log" and not llamaserver.has_clock(file):
            notes.append("Lines have no instants: requests are laid one after another, so nothing over time is true.")
        return FileAccount(
            file=str(file.path),
            format=form.name,
            reason=reason,
            num_rows=counting.num_rows,
            num_kept=counting.num_kept,
            left_out=counting.left_out(),
            columns=tuple([ColumnUse(*place, num) for place, num in sorted(reading.used.items())]),
            cannot_tell=counting.cannot_tell(),
            notes=tuple(notes),
        )

    def finish(self, files: tuple[FileAccount, ...]) -> Account:
        """Close the directory, write its policy and the account."""
        num = self._out.finish()
        notes = []
        if self._first_at < _RELATIVE:
            notes.append("Instants count from a log's own start: dates are of 1970.")
        if self._tenants.num_folded:
            notes.append(f"{self._tenants.num_folded:,} rows of tenants beyond the first {MOST:,} are one tenant.")
        account = Account(str(self._paths.root), num, len(self._tier_of), files, tuple(notes))
        write_whole(self._paths.root / ACCOUNT, msgspec.json.format(msgspec.json.encode(account)) + b"\n")
        text = self._policy_text or _policy_text(self._tier_of, tuple(self._policy_tiers()))
        write_whole(self._paths.policy, text.encode())
        if not num:
            told = "; ".join(f"{each.num}: {each.rule}" for file in files for each in file.left_out[:3])
            raise TraceError(files[0].file, 0, f"no request is left of {files[0].num_rows} rows ({told or 'no rows'})")
        return account

    def _policy_tiers(self) -> list[str]:
        return sorted(set(self._tier_of.values()) - {TIER})


def _labels(paths: Sequence[Path]) -> list[str]:
    """Each file's name without its endings, with its folder's where two would be alike."""
    stems = [path.name.removesuffix(".gz").rpartition(".")[0] or path.name for path in paths]
    return [
        f"{path.absolute().parent.name}-{stem}" if stems.count(stem) > 1 else stem
        for path, stem in zip(paths, stems, strict=True)
    ]


def _policy_text(tiers: dict[str, str], names: tuple[str, ...]) -> str:
    """A policy that promises nothing but answers: whoever was seen, and the tiers that were seen."""
    values: dict[str, Any] = {
        "plimsoll": 1,
        "tiers": [{"name": name, "rank": rank} for rank, name in enumerate([TIER, *names])],
        "tenants": [{"name": tenant, "tier": tier} for tenant, tier in sorted(tiers.items())],
        "pools": [],
    }
    return compact(values, "Made by plimsoll analyze of the tenants in the files; it promises nothing but answers.")
