"""The end of a job follows from what was written down and what the batch system says."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from taskq.model.pilot_views import PilotJob
from taskq.pilots.reconcile import (
    LAST_RETRY_S,
    MISSING_POLLS,
    MISSING_S,
    MOST_FAILURES,
    NEVER_CAME_S,
    Change,
    SeenJob,
    health,
    looked_at,
    reconcile,
)

NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
NAME = "taskq-hpc-0a1b2c3d-7"


def job(status: str, **values: Any) -> PilotJob:
    """Return a job as it is written down."""
    known: dict[str, Any] = dict.fromkeys(PilotJob.__dataclass_fields__)
    known |= {"number": 7, "name": NAME, "began_at": NOW, "age_s": 10.0, "at_work": False}
    known |= {"missing_polls": 0}
    known |= {"native_id": None if status == "submitting" else "42"}
    return PilotJob(**{**known, "status": status, **values})


def change(written: PilotJob, seen: SeenJob | None) -> Change | None:
    """Return what changes, if anything does."""
    changes = reconcile([written], {} if seen is None else {NAME: seen})
    return changes[0] if changes else None


def outcome(written: PilotJob, seen: SeenJob | None) -> str | None:
    """Return how a job has ended; None: it has not."""
    changed = change(written, seen)
    return None if changed is None else changed.outcome


def test_job_whose_submitter_died_is_found_by_its_name() -> None:
    """And goes on under the batch system's number."""
    changed = change(job("submitting"), SeenJob("43", "queued", "PENDING, Priority"))
    assert changed is not None
    assert (changed.status, changed.native_id, changed.why) == ("queued", "43", "PENDING, Priority")


def test_job_that_never_came_is_given_up_after_a_while() -> None:
    """Not at once: somebody may be submitting it."""
    early = job("submitting", age_s=NEVER_CAME_S - 1, missing_polls=MISSING_POLLS)
    assert outcome(early, None) is None
    assert outcome(job("submitting", age_s=NEVER_CAME_S), None) is None, "one answer is none"
    late = job("submitting", age_s=NEVER_CAME_S, missing_polls=MISSING_POLLS - 1)
    assert outcome(late, None) == "refused"


def test_job_that_came_after_all_goes_on() -> None:
    """It counts against the limit again."""
    given_up = job("ended", outcome="refused", ended_at=NOW)
    changed = change(given_up, SeenJob("43", "running"))
    assert changed is not None
    assert changed.status == "running"
    assert change(given_up, SeenJob("43", "ended")) is None


@pytest.mark.parametrize(
    ("written", "seen", "expected"),
    [
        (job("running", heard_at=NOW), SeenJob("42", "ended", "TIMEOUT"), "served"),
        (job("running"), SeenJob("42", "ended", "FAILED"), "died"),
        (job("queued"), SeenJob("42", "ended", "COMPLETED"), "died"),
        (job("queued"), SeenJob("42", "ended", "CANCELLED", reason="cancelled"), "cancelled"),
        (job("running", heard_at=NOW, left_why="nothing to do"), None, "served"),
    ],
)
def test_end_of_a_job_is_judged_by_whether_its_agent_sent_a_heartbeat(
    written: PilotJob, seen: SeenJob | None, expected: str
) -> None:
    """Then by who ended it."""
    assert outcome(written, seen) == expected


LONG: dict[str, Any] = {"missing_polls": MISSING_POLLS - 1, "missing_s": MISSING_S}


@pytest.mark.parametrize("status", ["queued", "running"])
def test_job_that_is_missing_is_where_it_was(status: str) -> None:
    """For several answers and some minutes, both: then it has vanished, which nobody saw."""
    for known in ({}, {**LONG, "missing_s": MISSING_S - 1}, {**LONG, "missing_polls": 1}):
        changed = change(job(status, **known), None)
        assert changed is not None
        assert (changed.status, changed.missing) == (status, True)
    assert outcome(job(status, **LONG), None) == "vanished"
    assert outcome(job(status, heard_at=NOW, **LONG), None) == "vanished"


def test_job_that_is_seen_again_is_not_missing_any_more() -> None:
    """Nor one whose agent is at work; the count begins anew."""
    here = SeenJob("42", "running", "RUNNING")
    for changed in (
        change(job("running", why="RUNNING", missing_polls=2), here),
        change(job("running", why="RUNNING", missing_polls=2, at_work=True), None),
    ):
        assert changed is not None
        assert (changed.status, changed.why, changed.missing) == ("running", "RUNNING", False)


def test_job_that_was_to_be_cancelled_is_not_waited_for_so_long() -> None:
    """Its end was asked for."""
    asked = job("queued", cancelled_at=NOW)
    assert outcome(asked, None) is None
    assert outcome(job("queued", cancelled_at=NOW, missing_polls=MISSING_POLLS), None) == (
        "cancelled"
    )


@pytest.mark.parametrize("outcome", ["vanished", "refused"])
def test_job_that_was_given_up_and_reappears_is_adopted(outcome: str) -> None:
    """In the batch system's answer, or by its agent."""
    given_up = job("ended", outcome=outcome, ended_at=NOW)
    assert looked_at([given_up, job("ended", outcome="served")]) == [given_up]
    for changed in (
        change(given_up, SeenJob("42", "running")),
        change(job("ended", outcome=outcome, ended_at=NOW, at_work=True), None),
    ):
        assert changed is not None
        assert changed.status == "running"
    assert change(given_up, None) is None


def test_jobs_that_vanish_together_are_one_failure() -> None:
    """And those whose agents were heard are none."""
    gone = [Change(n, NAME, "ended", outcome="vanished") for n in range(8)]
    after = health(0, gone, heard=False)
    assert after is not None
    assert (after.failures, after.pause_why) == (1, None)
    heard = [Change(7, NAME, "ended", outcome="vanished", heard=True)]
    assert health(0, heard, heard=False) is None


def test_job_whose_agent_sends_heartbeats_has_not_ended() -> None:
    """Even if the batch system has forgotten it."""
    assert change(job("running", heard_at=NOW, at_work=True), None) is None


def test_nothing_new_changes_nothing() -> None:
    """A round in which nothing happens writes nothing."""
    assert change(job("running", why="RUNNING"), SeenJob("42", "running", "RUNNING")) is None
    assert change(job("ended", outcome="served"), SeenJob("42", "ended")) is None
    assert change(job("ended", outcome="died"), None) is None


def test_failures_in_a_row_pause_the_pilot_with_the_last_words() -> None:
    """After ever longer waits."""
    failures, waits = 0, []
    for _ in range(MOST_FAILURES):
        after = health(failures, [], heard=False, refusal="sbatch failed: invalid account")
        assert after is not None
        failures = after.failures
        waits.append(after.retry_s)
    assert waits == [15, 30, 60, 120, 240]
    assert after.pause_why == (
        "5 submissions failed, one after the other; the last: sbatch failed: invalid account"
    )
    longest = health(50, [], heard=False, refusal="")
    assert longest is not None
    assert longest.retry_s == LAST_RETRY_S


def test_jobs_that_died_unheard_are_failures_with_their_last_lines() -> None:
    """So that an operator reads what is wrong without looking for a file."""
    died = Change(
        7,
        NAME,
        "ended",
        outcome="died",
        why="FAILED",
        exit_code=77,
        tail="Traceback\n  403 the token is revoked\n\n",
    )
    after = health(4, [died], heard=False)
    assert after is not None
    assert after.pause_why == (
        "5 jobs died before their agents were heard, one after the other; the last: job 7 died "
        "before its agent was heard: FAILED: exit code 77: Traceback | 403 the token is revoked"
    )


def test_agent_with_a_heartbeat_ends_a_series_of_failures() -> None:
    """One bad node does not stop a pilot."""
    died = Change(7, NAME, "ended", outcome="died")
    after = health(4, [died], heard=True)
    assert after is not None
    assert (after.failures, after.pause_why) == (1, None)
    cleared = health(4, [], heard=True)
    assert cleared is not None
    assert (cleared.failures, cleared.trouble) == (0, "")
    assert health(0, [], heard=True) is None
    assert health(3, [], heard=False) is None


@pytest.mark.parametrize("said", ["no\0thing", "no\ud800thing", "no\x1b[31mthing"])
def test_words_of_a_batch_system_can_be_stored(said: str) -> None:
    """One that cannot would keep the pilot from acting, as long as it is reported."""
    changed = change(job("queued"), SeenJob("42", "queued", said))
    assert changed is not None
    assert changed.why == "nothing"
    assert change(job("queued", why="nothing"), SeenJob("42", "queued", said)) is None
