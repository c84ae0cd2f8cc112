"""Attempts that fail when too many run at once, found by who ran when they began."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.crowds import AttemptTimes, with_crowds
from tests.helpers.attempt_groups import failed, group, verdict

_NOON = datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
_HOSTS = tuple(f"h{n}" for n in range(8))
#: Whether an attempt fails: when it begins, where, and on which hosts others run.
Fails = Callable[[float, str, Sequence[str]], bool]


def farm(fails: Fails, draw: random.Random, attempts: int = 600, slots: int = 2) -> AttemptTimes:
    """Let slots run attempts of some minutes one after the other; failures take a second."""
    free = [(draw.random() * 60, host) for host in _HOSTS for _ in range(slots)]
    heapq.heapify(free)
    running: list[tuple[float, str]] = []
    ended = []
    for _ in range(attempts):
        at, host = heapq.heappop(free)
        running = [it for it in running if it[0] > at]
        is_bad = fails(at, host, [name for _, name in running])
        until = at + (1.0 if is_bad else draw.uniform(60, 180))
        if not is_bad:
            running.append((until, host))
        ended.append((at, until, host, "exit-15" if is_bad else None))
        heapq.heappush(free, (until + draw.uniform(1, 30), host))
    return AttemptTimes(
        "/c",
        [host for _, _, host, _ in ended],
        [error_class for *_, error_class in ended],
        [_NOON + timedelta(seconds=at) for at, *_ in ended],
        [_NOON + timedelta(seconds=until) for _, until, *_ in ended],
    )


def judged(times: AttemptTimes, again: int = 30, then_done: int = 30) -> FailureVerdict:
    """Return the verdict on the class, with what the times say."""
    sample = []
    for host in _HOSTS:
        its = [it for name, it in zip(times.hosts, times.classes, strict=True) if name == host]
        sample += [
            group(host, attempts=its.count(None)),
            failed(host, its.count("exit-15"), "exit-15"),
        ]
    before = verdict(sample, again, then_done, "exit-15", last_tries=60, last_done=30)
    (after,) = with_crowds([before], [times])
    return after


def test_licences_for_a_few_are_known_by_how_many_run_when_attempts_fail() -> None:
    """Neither chance, which would take more attempts, nor the program is at fault."""
    found = judged(farm(lambda _, __, others: len(others) >= 5, random.Random(1)))
    assert (found.side, found.raised) == ("campaign", ("--max-running", "5"))
    assert found.proposal == "taskq campaign change /c --max-running 5"
    assert found.why.startswith(
        "of attempts that began while 5 or more others of the campaign ran anywhere 100 % of "
    )
    assert not found.says_all


def test_tasks_that_cannot_share_a_host_are_known_by_who_runs_there() -> None:
    """A limit of the campaign would not help: two may meet on a host all the same."""
    found = judged(farm(lambda _, host, others: host in others, random.Random(2)))
    assert (found.side, found.raised) == ("campaign", ())
    assert "while 1 or more others of the campaign ran on their host 100 % of " in found.why


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("form", ["chance", "since", "host", "outages", "growth"])
def test_other_failures_are_no_crowds(form: str, seed: int) -> None:
    """By chance, since a time, on a host, all at once for a while, or as a farm grows."""
    draw = random.Random(f"{form} {seed}")

    def fails(at: float, host: str, others: Sequence[str]) -> bool:
        if form == "chance":
            return draw.random() < 0.4
        if form == "since":
            return at > 1_500 and draw.random() < 0.7
        if form == "host":
            return host in {"h1", "h2"}
        if form == "outages":
            return at % 600 < 150
        return bool(others) and at > 1_500 and draw.random() < 0.5

    times = farm(fails, draw)
    found = judged(times)
    assert "--max-running" not in found.raised
    assert "others of the campaign" not in found.why
