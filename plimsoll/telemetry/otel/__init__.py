"""OpenTelemetry: the log's rows as OTLP traces, logs and metrics, sent by a process beside the gateway.

Reading order: `naming.py` (attributes by the GenAI conventions), `spans.py`, `logs.py`, `measures.py` (rows →
messages), `keeping.py` (which traces are kept), `wire.py` (messages → a collector), `following.py` (the log, again and
again), `place.py` (how far).
All but the last needs the extra `otel` (`opentelemetry-proto`).
"""
