"""Spans of OpenTelemetry as OTLP JSON, by the GenAI conventions (both name sets) and by vLLM's own attributes.

A file holds one export a line (the collector's file exporter) or one document. Each inference span is a request; a
span below another inference span is that request's retry, or the engine's own view of it, and is not counted twice.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from plimsoll.foreign.endings import COMPLETED, Ending, of_word
from plimsoll.foreign.logfile import LogFile, Numbered
from plimsoll.foreign.visit import Cells

HELD: Final = 50_000
"""Spans kept back, in case the span above them comes later in the file."""
INFERENCE: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings", "inference"})
"""Values of gen_ai.operation.name that are requests to a model; others are tools, agents, retrieval, workflows."""
_EXPORT: Final = re.compile(r'\s*\{\s*"resource(Spans|Logs|Metrics)"\s*:')
_WAYS: Final = ("stringValue", "boolValue", "intValue", "doubleValue")


def recognise(file: LogFile) -> str:
    """Why it is one; "" where it is not."""
    lines = [line for line in file.head_lines() if line.strip()]
    if not lines or not lines[0].lstrip().startswith("{"):
        return ""
    kinds = [kind[1] for line in lines if (kind := _EXPORT.match(line))]
    of_lines = "Spans" in kinds and 2 * len(kinds) > len(lines)  # fewer have strayed into another program's log
    is_document = not file.is_lines() and b'"resourceSpans"' in file.head[: 64 * 1024]
    return "it holds resourceSpans, as OTLP JSON does" if of_lines or is_document else ""


def ending(cells: Cells) -> Ending | None:
    """error.type where there is one, else the status code (1 is ok, 2 an error, 0 or none not set)."""
    error = cells.get("error.type")
    if error:
        try:
            return of_word(error)
        except ValueError:
            return of_word("error")
    return of_word("error") if str(cells.get("status.code", 0)) in {"2", "STATUS_CODE_ERROR"} else COMPLETED


def rows(file: LogFile) -> Numbered:
    """One row an inference span that stands below no other; the others are told with the rule."""
    held: OrderedDict[str, tuple[int, Cells]] = OrderedDict()
    above: OrderedDict[str, str] = OrderedDict()  # inference spans seen → the span above them
    number = 0
    for _, record in file.objects():
        if isinstance(record, str):
            number += 1
            yield number, record
            continue
        for cells in _spans(record):
            number += 1
            if not _is_inference(cells):
                yield number, "is no inference span (a tool, an agent, retrieval, HTTP or another step)"
                continue
            span, parent = str(cells["span_id"]), str(cells["parent_id"])
            above[span] = parent
            if parent and parent in above:
                yield number, "is below another inference span: its retry, or the engine's view of it"
                if parent in held:
                    _lend(held[parent][1], cells)
                continue
            held[span] = (number, cells)
            if len(held) > HELD:
                yield from _let_go(held.popitem(last=False)[1], above)
                above.popitem(last=False)
    while held:
        yield from _let_go(held.popitem(last=False)[1], above, held)


def _let_go(
    entry: tuple[int, Cells], above: OrderedDict[str, str], held: OrderedDict[str, tuple[int, Cells]] | None = None
) -> Numbered:
    number, cells = entry
    parent = str(cells["parent_id"])
    if parent and parent in above:
        if held is not None and parent in held:
            _lend(held[parent][1], cells)
        yield number, "is below another inference span: its retry, or the engine's view of it"
    else:
        yield number, cells


def _lend(parent: Cells, child: Cells) -> None:
    """What the engine's own span knows and its client's does not: first token, queue, lengths."""
    for key, value in child.items():
        if key.startswith(("gen_ai.latency", "gen_ai.server", "gen_ai.usage", "first_event_at")):
            parent.setdefault(key, value)
    parent["attempts"] = parent.get("attempts", 0) + 1


def _spans(record: Cells) -> Iterator[Cells]:
    for resource in record.get("resourceSpans") or ():
        common = {f"resource.{key}": value for key, value in _attributes(resource.get("resource"))}
        for scope in resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans") or ():
            for span in scope.get("spans") or ():
                yield common | dict(_attributes(span)) | _fields(span)


def _fields(span: Any) -> Cells:
    found: Cells = {
        "name": span.get("name", ""),
        "trace_id": span.get("traceId", ""),
        "span_id": span.get("spanId", ""),
        "parent_id": span.get("parentSpanId", ""),
        "start": span.get("startTimeUnixNano"),
        "end": span.get("endTimeUnixNano"),
        "status.code": (span.get("status") or {}).get("code", 0),
    }
    for event in span.get("events") or ():
        name = str(event.get("name", "")).lower()
        if "first_token" in name or "first token" in name or name.endswith("completion.chunk"):
            found["first_event_at"] = event.get("timeUnixNano")
            break
    return found


def _attributes(holder: Any) -> Iterator[tuple[str, Any]]:
    for each in (holder or {}).get("attributes") or ():
        value = each.get("value") or {}
        for way in _WAYS:
            if way in value:
                yield str(each.get("key", "")), value[way]
                break


def _is_inference(cells: Cells) -> bool:
    operation = cells.get("gen_ai.operation.name")
    if operation is not None:
        return operation in INFERENCE
    if cells["name"] == "llm_request":  # vLLM's own span
        return True
    named = "gen_ai.request.model" in cells or "gen_ai.response.model" in cells
    return named and any(key.startswith("gen_ai.usage.") for key in cells)
