"""Caches of a process that runs for months keep a level size."""

from __future__ import annotations

from taskq.dispatch.recent import Recent


class Clock:
    """A clock that stands still unless it is set."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return monotonic seconds."""
        return self.now_s


def test_used_value_stays_and_unused_one_goes() -> None:
    """However long the cache is in use."""
    clock = Clock()
    recent: Recent[str, int] = Recent(1_000, 60.0, clock)
    recent.put("used", 1)
    recent.put("unused", 2)
    for _ in range(10):
        clock.now_s += 45
        assert recent.get("used") == 1
    assert recent.get("unused") is None
    assert len(recent) == 1


def test_value_is_kept_for_the_whole_time() -> None:
    clock = Clock()
    recent: Recent[str, int] = Recent(1_000, 60.0, clock)
    clock.now_s += 59
    recent.put("late", 1)
    clock.now_s += 60
    assert recent.get("late") == 1
    clock.now_s += 121
    assert recent.get("late") is None


def test_twice_the_most_keys_are_kept_at_most() -> None:
    """The latest ones are among them."""
    recent: Recent[int, int] = Recent(100, 60.0, Clock())
    for key in range(10_000):
        recent.put(key, key + 1)
        assert len(recent) <= 200
    assert [recent.get(key) for key in range(9_950, 10_000)] == list(range(9_951, 10_001))


def test_forgotten_value_is_gone_from_both_generations() -> None:
    clock = Clock()
    recent: Recent[str, int] = Recent(10, 60.0, clock)
    recent.put("a", 1)
    clock.now_s += 61
    assert recent.get("a") == 1
    recent.forget("a")
    assert recent.get("a") is None
    recent.put("b", 1)
    recent.clear()
    assert not len(recent)
