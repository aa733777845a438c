"""OpenSLO v1 as a JSON schema, written from its specification (README of github.com/OpenSLO/OpenSLO, "openslo/v1").

The schemas that the project itself published for v1 cannot be used (they ask for `rationMetric` and for a key ""), so
this one stands in; `test_openslo.py` first holds it against every v1 example that OpenSLO's own tools call valid.
"""

from typing import Any, Final

_DURATION: Final = {"type": "string", "pattern": "^[1-9][0-9]*[mhdwMQY]$"}
_NAME: Final = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_TEXT: Final = {"type": "string", "maxLength": 1050}
_OP: Final = {"enum": ["lte", "gte", "lt", "gt"]}
_LABEL_KEY: Final = "^[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$"
_ANNOTATION_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?"
    r"[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$"
)


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


_METADATA: Final = _object(
    "name",
    name=_NAME,
    displayName={"type": "string", "minLength": 1},
    labels={
        "type": "object",
        "propertyNames": {"pattern": _LABEL_KEY},
        "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    },
    annotations={
        "type": "object",
        "propertyNames": {"pattern": _ANNOTATION_KEY},
        "additionalProperties": {"type": "string"},
    },
)
_METRIC: Final = _object(
    "metricSource",
    metricSource=_object(
        "spec", metricSourceRef=_NAME, type={"type": "string"}, spec={"type": "object", "minProperties": 1}
    ),
)
_RATIO: Final = _object(
    "",
    counter={"type": "boolean"},
    good=_METRIC,
    bad=_METRIC,
    total=_METRIC,
    raw=_METRIC,
    rawType={"enum": ["success", "failure"]},
) | {
    "oneOf": [{"required": ["good", "total"]}, {"required": ["bad", "total"]}, {"required": ["raw", "rawType"]}],
}
_SLI: Final = _object("", description=_TEXT, thresholdMetric=_METRIC, ratioMetric=_RATIO) | {
    "oneOf": [{"required": ["thresholdMetric"]}, {"required": ["ratioMetric"]}]
}
_CONDITION: Final = _object(
    "severity condition",
    description=_TEXT,
    severity={"type": "string", "minLength": 1},
    condition=_object(
        "kind op threshold lookbackWindow",
        kind={"const": "burnrate"},
        op=_OP,
        threshold={"type": "number"},
        lookbackWindow=_DURATION,
        alertAfter=_DURATION,
    ),
)
_TARGET: Final = _object("target", description=_TEXT, target={"type": "string", "minLength": 1})


def _ref_or_inline(ref: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    inline = _object("kind metadata spec", kind={"const": kind}, metadata=_METADATA, spec=spec)
    return {"oneOf": [_object(ref, **{ref: _NAME}), inline]}


_POLICY: Final = _object(
    "conditions notificationTargets",
    description=_TEXT,
    alertWhenNoData={"type": "boolean"},
    alertWhenResolved={"type": "boolean"},
    alertWhenBreaching={"type": "boolean"},
    conditions={
        "type": "array", "minItems": 1, "maxItems": 1,
        "items": _ref_or_inline("conditionRef", "AlertCondition", _CONDITION),
    },
    notificationTargets={
        "type": "array", "minItems": 1, "items": _ref_or_inline("targetRef", "AlertNotificationTarget", _TARGET)
    },
)  # fmt: skip
_WINDOW: Final = _object(
    "duration isRolling",
    duration=_DURATION,
    isRolling={"type": "boolean"},
    calendar=_object(
        "startTime timeZone",
        startTime={"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"},
        timeZone={"type": "string", "minLength": 1},
    ),
) | {
    "if": {"properties": {"isRolling": {"const": True}}},
    "then": {"not": {"required": ["calendar"]}},
    "else": {"required": ["calendar"]},
}
_OBJECTIVE: Final = _object(
    "",
    displayName={"type": "string"},
    op=_OP,
    value={"type": "number"},
    target={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    targetPercent={"type": "number", "minimum": 0, "exclusiveMaximum": 100},
    timeSliceTarget={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    timeSliceWindow={"anyOf": [_DURATION, {"type": "integer", "minimum": 1}]},
) | {"oneOf": [{"required": ["target"]}, {"required": ["targetPercent"]}]}


def _objectives(*required: str) -> dict[str, Any]:
    return {"properties": {"objectives": {"items": {"required": list(required)}}}}


_SLO: Final = _object(
    "service budgetingMethod objectives",
    description=_TEXT,
    service={"type": "string", "minLength": 1},
    indicator=_object("metadata spec", metadata=_METADATA, spec=_SLI),
    indicatorRef=_NAME,
    timeWindow={"type": "array", "minItems": 1, "maxItems": 1, "items": _WINDOW},
    budgetingMethod={"enum": ["Occurrences", "Timeslices", "RatioTimeslices"]},
    objectives={"type": "array", "minItems": 1, "items": _OBJECTIVE},
    alertPolicies={"type": "array", "items": _ref_or_inline("alertPolicyRef", "AlertPolicy", _POLICY)},
) | {
    "oneOf": [{"required": ["indicator"]}, {"required": ["indicatorRef"]}],
    "allOf": [
        {
            "if": {"properties": {"budgetingMethod": {"const": "Timeslices"}}},
            "then": _objectives("timeSliceTarget", "timeSliceWindow"),
        },
        {
            "if": {"properties": {"budgetingMethod": {"const": "RatioTimeslices"}}},
            "then": _objectives("timeSliceWindow"),
        },
    ],
}
_SPECS: Final = {
    "SLO": _SLO,
    "SLI": _SLI,
    "AlertPolicy": _POLICY,
    "AlertCondition": _CONDITION,
    "AlertNotificationTarget": _TARGET,
    "Service": _object("", description=_TEXT),
    "DataSource": _object(
        "type connectionDetails",
        description=_TEXT,
        type={"type": "string"},
        connectionDetails={"not": {"type": "null"}},
    ),
}
SCHEMA: Final[dict[str, Any]] = {
    "oneOf": [
        _object(
            "apiVersion kind metadata spec" if kind != "Service" else "apiVersion kind metadata",
            apiVersion={"const": "openslo/v1"},
            kind={"const": kind},
            metadata=_METADATA,
            spec=spec,
        )
        for kind, spec in _SPECS.items()
    ]
}
