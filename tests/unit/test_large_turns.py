"""Turns of what is large: a rest follows each."""

from __future__ import annotations

from taskq.dispatch.fair_queue import LargeTurns


def test_rest_follows_from_what_a_turn_has_cost() -> None:
    """Whoever asks for more rests longer; the first and what comes late enough wait for nothing."""
    turns = LargeTurns(5.0)
    assert turns.wait_s(0.0) == 0.0
    turns.begin(100.0)
    assert turns.under_way
    turns.end(102.0)
    assert not turns.under_way
    assert turns.wait_s(103.0) == 9.0
    assert turns.wait_s(113.0) == 0.0
    turns.begin(113.0)
    turns.end(114.0, times=3.0)
    assert turns.wait_s(114.0) == 15.0
    turns.cut_short()
    assert turns.wait_s(114.0) == 0.0
