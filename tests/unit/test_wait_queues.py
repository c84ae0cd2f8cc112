"""Who is woken for what: first come first served, nobody for somebody else's task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from taskq.dispatch.fair_share import Scope
from taskq.dispatch.wait_queues import MOST_APART, QueuePlace, WaitQueues

ALL, LEFT, RIGHT = Scope("/"), Scope("/left"), Scope("/right")


class Row:
    """Waits in queues under names."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.queues = WaitQueues()
        self.places: dict[str, QueuePlace] = {}
        self.futures: dict[str, asyncio.Future[bool]] = {}

    def join(self, name: str, scope: Scope, *, wake_at_end: bool = True) -> None:
        """Put somebody into the queue of a scope."""
        self.futures[name] = self._loop.create_future()
        self.places[name] = self.queues.join(scope, self.futures[name], wake_at_end=wake_at_end)

    def take(
        self, scopes: list[Scope], groups: list[tuple[list[int], int]], unfinished: list[int]
    ) -> str:
        """Return the names of those who are woken, in that order."""
        names = {id(future): name for name, future in self.futures.items()}
        return "".join(names[id(future)] for future in self.queues.take(scopes, groups, unfinished))

    def close(self) -> None:
        """Release the loop that the futures belong to."""
        self._loop.close()


@pytest.fixture
def row() -> Iterator[Row]:
    """Give a row in which nobody waits."""
    made = Row()
    yield made
    made.close()


def test_as_many_are_woken_as_there_are_tasks_longest_waiting_first(row: Row) -> None:
    """And each once: the next turn goes on where this one stopped."""
    for name in "abcde":
        row.join(name, ALL)
    assert row.take([ALL], [([0], 2)], [9]) == "ab"
    assert row.take([ALL], [([0], 2)], [9]) == "cd"
    assert row.take([ALL], [([0], 7)], [9]) == "e"
    assert row.take([ALL], [], [0]) == ""


def test_few_queues_are_kept_for_those_who_leave_campaigns_out(row: Row) -> None:
    """Each costs the question what can be claimed; beyond, they wait with those who do not."""
    for number in range(MOST_APART):
        scope = Scope("/", (), None, ((number, 1),))
        assert row.queues.queue_scope(scope) == scope
        row.join(str(number), scope)
    known, other = Scope("/", (), None, ((0, 1),)), Scope("/", (), None, ((0, 2),))
    assert row.queues.queue_scope(known) == known
    assert row.queues.queue_scope(other) == ALL
    row.queues.leave(row.places["1"])
    assert row.queues.queue_scope(other) == other


def test_servings_that_have_the_same_tasks_in_view_share_them(row: Row) -> None:
    """Three tasks wake three, in the order of arrival, however many lines they stand in."""
    for name, scope in zip("abcdef", [LEFT, ALL, LEFT, ALL, RIGHT, RIGHT], strict=True):
        row.join(name, scope)
    assert row.take([LEFT, ALL, RIGHT], [([0, 1], 3), ([1, 2], 1)], [9, 9, 9]) == "abcd"


def test_agents_are_not_woken_for_tasks_that_only_others_can_claim(row: Row) -> None:
    """Even if they have been there for longer."""
    row.join("a", LEFT)
    row.join("b", RIGHT)
    assert row.take([LEFT, RIGHT], [([1], 5)], [3, 5]) == "b"
    assert len(row.queues) == 1


def test_claim_that_has_given_up_is_passed_over(row: Row) -> None:
    """A task is not lost on somebody who is gone."""
    for name in "abc":
        row.join(name, ALL)
    row.futures["a"].cancel()
    assert row.take([ALL], [([0], 1)], [1]) == "b"


def test_all_learn_that_nothing_is_unfinished_but_those_who_know(row: Row) -> None:
    """A client that got its answer and waits for new tasks is not woken again for that."""
    row.join("a", ALL)
    row.join("b", ALL, wake_at_end=False)
    row.join("c", ALL)
    row.join("d", LEFT)
    assert row.take([ALL, LEFT], [], [0, 4]) == "ac"
    assert row.take([ALL, LEFT], [], [0, 4]) == ""
    row.take([ALL, LEFT], [], [1, 4])
    assert row.take([ALL, LEFT], [], [0, 4]) == "b", "something has been unfinished since"


def test_leaving_leaves_nothing_behind(row: Row) -> None:
    """Woken or not, in whatever order."""
    for name in "abc":
        row.join(name, ALL)
    assert row.take([ALL], [([0], 1)], [1]) == "a"
    for name in "bac":
        assert row.queues
        row.queues.leave(row.places[name])
    assert not row.queues
    assert row.queues.next_scopes(10) == []
    row.join("d", ALL)
    row.queues.leave(row.places["a"])
    assert ALL in row.queues


def test_most_crowded_serving_is_asked_for_each_time(row: Row) -> None:
    """However many others somebody waits in, who are asked for in turn."""
    for number in range(40):
        row.join(f"s{number}", Scope(f"/strange/{number}"))
    for name in "abc":
        row.join(name, ALL)
    asked = [row.queues.next_scopes(4) for _ in range(40)]
    assert all(ALL in scopes and len(scopes) == 4 for scopes in asked)
    assert len({scope for scopes in asked for scope in scopes}) == 41


def test_many_servings_take_turns(row: Row) -> None:
    """No statement asks for more than so many; none is left out for ever."""
    for name, scope in zip("abc", [LEFT, ALL, RIGHT], strict=True):
        row.join(name, scope)
    assert row.queues.next_scopes(2) == [LEFT, ALL]
    assert row.queues.next_scopes(2) == [RIGHT, LEFT]
