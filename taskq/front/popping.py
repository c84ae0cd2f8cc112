"""The pop: entries are taken from some lists, and who takes one holds its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from taskq.front.entries import FrontState
from taskq.front.errors import FrontDown
from taskq.front.redis import Argument, Link


class Popped(NamedTuple):
    """What came from one list; left: entries that are still there. Nobody has vouched for any."""

    entries: list[bytes]
    left: int


async def pop(
    link: Link, state: FrontState, counts: Sequence[tuple[int, int]]
) -> list[Popped] | None:
    """Take so many entries from the list of each campaign; 0 only looks how many there are.

    Return as many answers, in order; None: Redis has another epoch. Lists that run low are made
    known to the refiller. Raise `FrontDown`; what was popped then, if anything, waits again after
    the pool's deadline.
    """
    keys = [state.keys.state, state.keys.wanted, state.keys.wake]
    args: list[Argument] = [state.epoch]
    for campaign, count in counts:
        keys.append(state.keys.tasks(campaign))
        args += (campaign, count)
    answer = await link.run("pop", keys, args)
    if answer is None:
        return None
    answers = _listed(answer, len(counts))
    return [_popped(one, count) for one, (_, count) in zip(answers, counts, strict=True)]


def _popped(answer: Any, count: int) -> Popped:
    entries, left = _listed(answer, 2)
    if type(left) is not int or type(entries) is not list or len(entries) > count:
        raise _senseless(answer)
    return Popped(entries, left)


def _listed(answer: Any, length: int) -> list[Any]:
    if type(answer) is not list or len(answer) != length:
        raise _senseless(answer)
    return answer


def _senseless(answer: Any) -> FrontDown:
    return FrontDown(f"the front does not answer as it should: {answer!r:.80}")
