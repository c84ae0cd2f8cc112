"""Traces of tasks for OpenTelemetry: how their attempts went, told to a receiver of OTLP over HTTP.

What has ended is read from the database behind a cursor, so agents, gateways and claims know
nothing of it (`exporting.py`). `spans.py` makes spans of attempts, purely, with ids that are the
same whenever they are told; `otlp.py` sends them, and is the only importer of `opentelemetry`, the
extra `taskq[otel]`. What it touches: `taskq/following/`, statements of the library.
"""
