"""Rates of tokens: a number at once, and so many a second in the long run."""

from __future__ import annotations

import pytest

from taskq.gateway import pace
from taskq.gateway.pace import TokenRate


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_token_waits_for_its_turn_and_no_other_does() -> None:
    """Each of those that come at the same time waits a little longer than the one before."""
    clock = Clock()
    rate = TokenRate(3, 10.0, clock)
    waits = []
    for _ in range(6):
        waits.append(rate.wait_s("a"))
        rate.count("a")
    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])
    assert rate.wait_s("b") == 0
    clock.now += 0.2
    assert rate.wait_s("a") == pytest.approx(0.2)
    clock.now += 10
    assert rate.wait_s("a") == 0


def test_turns_have_the_rate_in_the_long_run() -> None:
    """However often the token asks."""
    clock = Clock()
    rate = TokenRate(20, 100.0, clock)
    began, asked = clock.now, 0
    while clock.now < began + 10:
        wait_s = rate.wait_s("a")
        rate.count("a")
        asked += 1
        clock.now += wait_s
    assert 10 * 100 <= asked <= 10 * 100 + 20 + 1


def test_tokens_that_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that ask most stay, and what is no token is forgotten."""
    monkeypatch.setattr(pace, "MOST_COUNTED", 10)
    rate = TokenRate(2, 0.001, Clock())
    for _ in range(2):
        rate.count("often")
    assert rate.wait_s("often")
    for n in range(1_000):
        rate.count(str(n))
        assert len(rate) <= 10
    assert rate.wait_s("often")
    rate.forget("often")
    assert not rate.wait_s("often")
