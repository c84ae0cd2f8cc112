"""Traces: where spans lie in time, whatever an agent says; addresses of receivers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from taskq.model.errors import UsageError
from taskq.model.views import Attempt
from taskq.results.otlp import Receiver
from taskq.results.traces import PHASES, Trace, trace_of

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc)


def attempt(
    number: int, begin_s: float, end_s: float, phases: Any = None, outcome: str = "done"
) -> Attempt:
    """Return an attempt that lasted from then to then, in seconds after `BEGIN`."""
    at = [BEGIN + timedelta(seconds=s) for s in (begin_s, end_s)]
    return Attempt(number, outcome, *at, "a", "h", "", None, None, None, phases, None, None, None)


def trace(*attempts: Attempt, path: str = "/a", task: int = 1) -> Trace:
    """Return the trace of a task."""
    return trace_of(path, BEGIN, task, "key", attempts)


def lengths(found: Trace) -> dict[str, float]:
    """Return how long the spans are, in seconds, by name."""
    return {span.name: (span.end_ns - span.begin_ns) / 1e9 for span in found.spans}


def test_phases_follow_each_other_and_the_rest_is_the_reports() -> None:
    """In the order in which an agent goes through them, from the claim on."""
    found = trace(attempt(1, 0, 10, {"run_s": 6, "cpu_s": 5.5, "wait_s": 2, "upload_s": 1}))
    assert lengths(found) == {
        "task of /a": 10,
        "attempt": 10,
        "wait": 2,
        "run": 6,
        "upload": 1,
        "report": 1,
    }
    begins = [span.begin_ns for span in found.spans]
    assert begins == sorted(begins)
    assert begins[0] == 1_767_323_045_000_006_000


def test_time_between_attempts_is_a_wait() -> None:
    """Of the task; attempts that overlap, as hedged ones, have none."""
    found = trace(attempt(1, 0, 3, outcome="lost"), attempt(2, 5, 6), attempt(3, 5.5, 7))
    assert [span.name for span in found.spans] == [
        *("task of /a", "attempt", "wait to be claimed", "attempt", "attempt")
    ]
    assert lengths(found)["wait to be claimed"] == 2
    assert [span.error for span in found.spans] == [None, "lost", None, None, None]


def test_task_that_a_late_success_has_ended_has_not_failed() -> None:
    """The attempt that the success has overtaken comes behind it."""
    found = trace(
        attempt(1, 0, 3, outcome="failed"),
        attempt(2, 4, 9),
        attempt(3, 6, 9, outcome="cancelled"),
    )
    errors = [span.error for span in found.spans if span.name != "wait to be claimed"]
    assert errors == [None, "failed", None, "cancelled"]


@pytest.mark.parametrize(
    "phases",
    [
        dict.fromkeys(PHASES, 100000000000000.0),
        {"run_s": 10**400, "wait_s": -5, "peak_bytes": 1e300},
        {"run_s": "long", "wait_s": None, "fetch_s": [], "no_s": 3, "x" * 10_000: 1},
        {},
        None,
    ],
)
def test_times_from_an_agent_never_leave_the_attempt(phases: Any) -> None:
    """A clock that was set back does not either."""
    for end_s in (10, -10):
        found = trace(attempt(1, 0, end_s, phases))
        first = next(span for span in found.spans if span.name == "attempt")
        assert len(found.spans) <= 3 + len(PHASES)
        for span in found.spans[1:]:
            assert first.begin_ns <= span.begin_ns <= span.end_ns <= first.end_ns


def test_ids_depend_on_campaign_task_and_attempt_only() -> None:
    """They are the same with what was not known before, and differ between tasks."""
    early, late = trace(attempt(1, 0, 1)), trace(attempt(1, 0, 1), attempt(2, 2, 3))
    assert early.trace_id == late.trace_id
    assert [span.span_id for span in early.spans] == [span.span_id for span in late.spans[:2]]
    elsewhere = trace_of("/a", BEGIN + timedelta(microseconds=1), 1, "key", [attempt(1, 0, 1)])
    others = [
        elsewhere,
        trace(attempt(1, 0, 1), task=2),
        trace(attempt(1, 0, 1), path="/a/b"),
        late,
    ]
    ids = [span.span_id for found in others for span in found.spans]
    assert len(set(ids)) == len(ids)
    assert len({other.trace_id for other in others}) == 4
    assert {(len(found.trace_id), len(found.spans[0].span_id)) for found in others} == {(16, 8)}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("https://x/", "https://x:443/v1/traces"),
        ("https://[::1]:9/otlp/v1/traces", "https://[::1]:9/otlp/v1/traces"),
    ],
)
def test_address_without_a_path_is_the_usual_one(url: str, shown: str) -> None:
    """As the specification has it."""
    assert str(Receiver(url)) == shown


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        *((url, "") for url in ("", "localhost:4318", "ftp://x", "http://", "http://a b")),
        *((url, "") for url in ("http://x:y", "http://u:p@x", "http://x/?a=b", "http://x\n")),
        ("http://\u0440x", ""),
        *(("http://x", headers) for headers in ("a", "=b", "a b=c", "a=%0d%0ab: c", "a%3A=b")),
    ],
)
def test_address_or_header_that_makes_no_sense_is_refused(url: str, headers: str) -> None:
    """Before anything is read; a header is not repeated, since it may hold a secret."""
    with pytest.raises(UsageError) as refused:
        Receiver(url, headers)
    assert not headers or headers not in str(refused.value)
