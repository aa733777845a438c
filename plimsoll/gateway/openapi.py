"""The operators' port for machines: OpenAPI 3.1, served at `/admin/openapi.json`. Tests send what it allows."""

from typing import Any, Final

import msgspec

from plimsoll import __version__
from plimsoll.governor.snapshot import Snapshot

_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
_BEARER: Final[list[dict[str, list[str]]]] = [{"adminToken": []}]


def document() -> dict[str, Any]:
    """The whole description, as plain values."""
    (snapshot,), schemas = msgspec.json.schema_components([Snapshot], ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Plimsoll, the operators' port", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": {
            "/healthz": {"get": _get("health", "The process lives.", {"200": _answer("It does.", _TEXT)})},
            "/readyz": {
                "get": _get(
                    "ready",
                    "Whether traffic should be sent here.",
                    {"200": _answer("Yes.", _TEXT), "503": _answer("No; a reason a line.", _TEXT)},
                )
            },
            "/metrics": {"get": _get("metrics", "For Prometheus.", {"200": _answer("All metrics.", _metrics())})},
            "/scaling": {"get": _get("scaling", "For autoscalers.", {"200": _json("Signals by pool.", _OBJECT)})},
            f"{EXTERNAL}/{{namespace}}/{{metric}}": {"get": _external()},
            "/admin/snapshot": {
                "get": _guarded(_get("snapshot", "The governor's state.", {"200": _json("All of it.", snapshot)}))
            },
            "/admin/events": {
                "get": _guarded(
                    _get("events", "Decisions as they fall; does not end.", {"200": _answer("A stream.", _events())})
                )
            },
            "/admin/openapi.json": {
                "get": _guarded(_get("openapi", "This description.", {"200": _json("It.", _OBJECT)}))
            },
            "/admin/reload": {
                "post": _guarded(
                    _get(
                        "reload",
                        "Read the policy again and go by it.",
                        {"200": _json("It is in force.", _RELOADED), "400": _json("The old one stays.", _ERROR)},
                    )
                )
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"adminToken": {"type": "http", "scheme": "bearer"}},
        },
    }


EXTERNAL: Final = "/apis/external.metrics.k8s.io/v1beta1/namespaces"
_OBJECT: Final[dict[str, Any]] = {"type": "object"}
_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message"],
            "properties": {
                "message": {"type": "string"},
                "faults": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}
_RELOADED: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["policy_version", "warnings"],
    "properties": {
        "policy_version": {"type": "string"},
        "warnings": {"type": "array", "items": {"type": "string"}},
    },
}


def _get(name: str, text: str, answers: dict[str, Any]) -> dict[str, Any]:
    return {"operationId": name, "summary": text, "responses": answers}


def _guarded(operation: dict[str, Any]) -> dict[str, Any]:
    denied = {"401": _json("The token is missing or wrong.", _ERROR)}
    return operation | {"security": _BEARER, "responses": operation["responses"] | denied}


def _external() -> dict[str, Any]:
    answers = {"200": _json("Values by pool.", _OBJECT), "404": _json("No such metric.", _ERROR)}
    text = {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9_.-]+$"}
    return _get("externalMetrics", "The same, as Kubernetes' external metrics.", answers) | {
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": text} for name in ("namespace", "metric")
        ]
        + [{"name": "labelSelector", "in": "query", "schema": {"type": "string"}}]
    }


def _answer(text: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": content}


def _json(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return _answer(text, {"application/json": {"schema": schema}})


def _metrics() -> dict[str, Any]:
    return _TEXT | {"application/vnd.google.protobuf": {"schema": {"type": "string", "format": "binary"}}}


def _events() -> dict[str, Any]:
    return {"text/event-stream": {"schema": {"type": "string"}}}
