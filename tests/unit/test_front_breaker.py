"""The breaker: a front that fails is left alone, and is back by itself."""

from __future__ import annotations

from taskq.front.breaker import LONGEST_PAUSE_S, STEADY_S, Breaker, State


def closed_at(now: float) -> Breaker:
    """Return a breaker that has just been closed by a probe."""
    breaker = Breaker(lambda: 1.0)
    assert breaker.probe(now)
    assert breaker.succeed(now)
    return breaker


def pause_s(breaker: Breaker, now: float) -> float:
    """Fail, and return how long the front is left alone."""
    breaker.fail(now, now)
    return breaker.wait_s(now)


def test_front_is_not_used_before_a_probe_has_found_it_good() -> None:
    """A gateway that starts without a front makes no claim wait for one."""
    breaker = Breaker(lambda: 1.0)
    assert not breaker.closed
    assert breaker.wait_s(5.0) == 0
    assert breaker.probe(5.0)
    assert breaker.state is State.HALF_OPEN
    assert not breaker.closed
    assert breaker.succeed(5.1)
    assert breaker.closed


def test_failure_opens_it_until_a_probe_succeeds() -> None:
    """One failure is enough: the claims after it must not wait."""
    breaker = closed_at(0)
    assert breaker.fail(10.0, 9.9)
    assert not breaker.closed
    assert not breaker.probe(10.09)
    assert breaker.probe(10.1)
    assert not breaker.probe(10.1), "one probe at a time"
    assert breaker.succeed(10.2)
    assert breaker.closed


def test_pauses_double_while_probes_fail_but_not_for_ever() -> None:
    """Who is down for an hour is found within two seconds, and not bothered until then."""
    breaker = closed_at(0)
    now, pauses = 10.0, []
    breaker.fail(now, now)
    for _ in range(7):
        pauses.append(round(breaker.wait_s(now), 6))
        now += breaker.wait_s(now)
        assert breaker.probe(now)
        assert not breaker.fail(now, now), "it was open already"
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_front_that_answers_probes_and_fails_claims_is_tried_less_and_less() -> None:
    """Lists full of garbage must not cost a claim in ten its patience."""
    breaker = closed_at(0)
    first = pause_s(breaker, 10.0)
    assert breaker.probe(10.1)
    assert breaker.succeed(10.1)
    assert pause_s(breaker, 10.2) == 2 * first


def test_pauses_are_short_again_after_it_has_worked_for_a_while() -> None:
    """A restart next week is not punished for the one of today."""
    breaker = closed_at(0)
    first = pause_s(breaker, 10.0)
    assert breaker.probe(10.1)
    assert breaker.succeed(10.1)
    assert pause_s(breaker, 10.1 + STEADY_S) == first


def test_failure_from_before_the_breaker_closed_does_not_open_it() -> None:
    """An answer that times out late describes the server as it was before."""
    breaker = closed_at(10.0)
    assert not breaker.fail(10.1, began=9.9)
    assert breaker.closed


def test_second_of_two_failures_at_once_changes_nothing() -> None:
    """Two pops under way fail together; that is one failure."""
    breaker = closed_at(0)
    assert breaker.fail(10.0, 9.9)
    wait_s = breaker.wait_s(10.0)
    assert not breaker.fail(10.0, 9.9)
    assert breaker.wait_s(10.0) == wait_s


def test_late_success_does_not_close_it() -> None:
    """Only a probe that was let through does."""
    breaker = closed_at(0)
    breaker.fail(10.0, 9.9)
    assert not breaker.succeed(10.01)
    assert not breaker.closed


def test_pauses_of_several_gateways_drift_apart() -> None:
    """Half of each pause is left to chance."""
    lucky, unlucky = Breaker(lambda: 0.0), Breaker(lambda: 1.0)
    for breaker in (lucky, unlucky):
        assert breaker.probe(0)
        breaker.fail(0, 0)
    assert lucky.wait_s(0) == unlucky.wait_s(0) / 2
