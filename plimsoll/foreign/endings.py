"""How a request ended, from what other software writes of it: an HTTP status, Envoy's flags, a word."""

from typing import Final

from plimsoll.slo.outcome import Outcome, Reason

Ending = tuple[Outcome, Reason]

COMPLETED: Final[Ending] = (Outcome.COMPLETED, Reason.DONE)
LEFT: Final[Ending] = (Outcome.ABORTED, Reason.CLIENT_LEFT)
FAILED: Final[Ending] = (Outcome.FAILED, Reason.ENGINE_ERROR)
OPEN: Final[Ending] = (Outcome.INTERRUPTED, Reason.GATEWAY_DIED)
"""Still open when the log ends: its wait is cut off there, and nobody is blamed."""

_STATUSES: Final[dict[int, Ending]] = {
    0: LEFT,
    400: (Outcome.REJECTED, Reason.BAD_REQUEST),
    401: (Outcome.REJECTED, Reason.UNKNOWN_KEY),
    403: (Outcome.REJECTED, Reason.FORBIDDEN_TIER),
    404: (Outcome.REJECTED, Reason.UNKNOWN_MODEL),
    405: (Outcome.REJECTED, Reason.METHOD_NOT_ALLOWED),
    408: (Outcome.REJECTED, Reason.REQUEST_TIMEOUT),
    413: (Outcome.REJECTED, Reason.BODY_TOO_LARGE),
    429: (Outcome.REJECTED, Reason.TENANT_RATE),
    431: (Outcome.REJECTED, Reason.HEADERS_TOO_LARGE),
    499: LEFT,
    502: (Outcome.FAILED, Reason.CONNECTION_LOST),
    503: (Outcome.FAILED, Reason.ENGINE_BUSY),
    504: (Outcome.FAILED, Reason.TOTAL_TIMEOUT),
    529: (Outcome.FAILED, Reason.ENGINE_BUSY),
}
_FLAGS: Final[dict[str, Ending]] = {
    "DC": LEFT, "DR": LEFT,
    "UT": (Outcome.FAILED, Reason.TOTAL_TIMEOUT), "DT": (Outcome.FAILED, Reason.TOTAL_TIMEOUT),
    "UMSDR": (Outcome.FAILED, Reason.TOTAL_TIMEOUT), "SI": (Outcome.FAILED, Reason.IDLE_TIMEOUT),
    "UF": (Outcome.FAILED, Reason.CONNECT_FAILED), "UC": (Outcome.FAILED, Reason.CONNECTION_LOST),
    "UR": (Outcome.FAILED, Reason.CONNECTION_LOST), "LR": (Outcome.FAILED, Reason.CONNECTION_LOST),
    "UPE": (Outcome.FAILED, Reason.BAD_UPSTREAM), "URX": (Outcome.FAILED, Reason.ENGINE_ERROR),
    "UH": (Outcome.REJECTED, Reason.NO_REPLICA), "NR": (Outcome.REJECTED, Reason.NO_REPLICA),
    "NC": (Outcome.REJECTED, Reason.NO_REPLICA), "UO": (Outcome.REJECTED, Reason.QUEUE_FULL),
    "OM": (Outcome.REJECTED, Reason.OVERLOAD), "RL": (Outcome.REJECTED, Reason.TENANT_RATE),
    "UAEX": (Outcome.REJECTED, Reason.FORBIDDEN_TIER), "DPE": (Outcome.REJECTED, Reason.BAD_REQUEST),
    "IH": (Outcome.REJECTED, Reason.BAD_REQUEST),
}  # fmt: skip
"""Envoy's response flags (access log manual, RESPONSE_FLAGS)."""
_WORDS: Final[dict[str, Ending]] = (
    dict.fromkeys(
        ("success", "succeeded", "ok", "stop", "length", "tool_calls", "function_call", "content_filter", "completed",
         "complete", "finished", "done", "end_turn", "max_tokens", "stop_sequence", "tool_use", "true",
         "status_code_ok", "unset", "status_code_unset", "eos", "repetition"), COMPLETED)
    | dict.fromkeys(("abort", "aborted", "cancelled", "canceled", "cancel", "disconnected"), LEFT)
    | dict.fromkeys(("failure", "failed", "error", "false", "status_code_error", "exception"), FAILED)
    | dict.fromkeys(("timeout", "timed_out", "deadline_exceeded", "request_timeout", "timeouterror"),
                    (Outcome.FAILED, Reason.TOTAL_TIMEOUT))
    | dict.fromkeys(("rate_limited", "rate_limit", "ratelimiterror", "rate_limit_exceeded"),
                    (Outcome.REJECTED, Reason.TENANT_RATE))
    | dict.fromkeys(("rejected", "refused", "bad_request", "badrequesterror"), (Outcome.REJECTED, Reason.BAD_REQUEST))
)  # fmt: skip


def of_status(status: int) -> Ending:
    """From an HTTP status. ValueError where it is none that ends an answer."""
    known = _STATUSES.get(status)
    if known is not None:
        return known
    if 200 <= status < 300:
        return COMPLETED
    if 400 <= status < 500:
        return Outcome.REJECTED, Reason.BAD_REQUEST
    if 500 <= status < 600:
        return FAILED
    raise ValueError("its status is no answer's (below 200, or a redirection)")


def of_flags(flags: str) -> Ending | None:
    """From Envoy's response flags, the first that says how it ended; None where none does."""
    return next((_FLAGS[each] for each in flags.replace(" ", "").split(",") if each in _FLAGS), None)


def of_word(cell: object) -> Ending:
    """From a status as a number or a word. ValueError where it is neither."""
    word = str(cell).strip().lower()
    if word.isdigit():
        return of_status(int(word))
    known = _WORDS.get(word) or _WORDS.get(word.rpartition(".")[2])
    if known is None and (word.endswith(("error", "exception", "failure")) or word.startswith("error")):
        return FAILED
    if known is None:
        raise ValueError("its status is a word that is not known")
    return known
