"""Which corners are explored of hosts, each with all that can happen in it."""

from __future__ import annotations

from tests.protocol.hosts.state import BAD, LACKING, SHAKY, WELL, Bounds
from tests.protocol.state import DONE

#: Explored in every run of the tests, within some seconds.
BRIEF = {
    "a bad host": Bounds((0, 1), ((BAD,), (WELL,)), tasks=(0, 0), max_attempts=3, ahead=True),
    "hosts come and go": Bounds(
        (0, 1, 2), ((BAD,), (WELL,), (WELL,)), max_attempts=3, goes=2, comes=1, day=True
    ),
    "losses": Bounds(
        (0, 1, 1), ((DONE,),) * 3, tasks=(0, 0), max_attempts=1, goes=2, comes=1, day=True
    ),
    "a lacking host": Bounds((0, 1), ((WELL,), (LACKING,)), tasks=(0, 0)),
    "some hosts lack something": Bounds((0, 1, 2), ((LACKING,), (LACKING,), (WELL,)), tasks=(0, 0)),
    "all hosts lack something": Bounds((0, 1, 2), ((LACKING,),) * 3, words=1),
    "one machine": Bounds((0, 0, 1), ((LACKING,), (SHAKY,), (LACKING,))),
    "side by side": Bounds((0, 1), ((SHAKY,), (WELL,)), tasks=(0, 0), slots=2),
    "a repair": Bounds((0, 1), ((LACKING,),) * 2, tasks=(0, 0), words=2, mends=True),
    "two campaigns": Bounds((0, 1), ((LACKING, WELL), (WELL, LACKING)), tasks=(0, 1)),
    "front": Bounds((0, 1), ((BAD,), (SHAKY,)), ahead=True, goes=1, day=True),
}

#: The same, with more of everything; where it matters, with the figures that are shipped.
LARGE = {
    "bad hosts": Bounds(
        (0, 1, 2), ((BAD,), (BAD,), (WELL,)), tasks=(0, 0), max_attempts=3, ahead=True, day=True
    ),
    "hosts come and go": Bounds(
        (0, 1, 2), ((BAD,), (WELL,), (LACKING,)), max_attempts=3, goes=2, comes=1, day=True
    ),
    "a lacking host": Bounds(
        (0, 1), ((WELL,), (LACKING,)), tasks=(0, 0, 0), witnesses=3, times=3, longest=4
    ),
    "some hosts lack something": Bounds(
        (0, 1, 2, 3), (*((LACKING,),) * 3, (WELL,)), witnesses=3, times=3
    ),
    "all hosts lack something": Bounds(
        (0, 1, 2), ((LACKING,),) * 3, tasks=(0, 0), words=1, witnesses=3, times=3
    ),
    "one machine": Bounds((0, 0, 1), ((LACKING,), (SHAKY,), (LACKING,)), goes=1, comes=1, times=3),
    "side by side": Bounds((0, 1), ((SHAKY,), (WELL,)), tasks=(0, 0, 0), slots=2),
    "a repair": Bounds((0, 1, 2), ((LACKING,),) * 3, tasks=(0, 0), words=2, mends=True),
    "two campaigns": Bounds((0, 1), ((LACKING, WELL), (SHAKY, LACKING)), tasks=(0, 0, 1)),
    "front": Bounds((0, 1, 2), ((BAD,), (SHAKY,), (LACKING,)), ahead=True, goes=1, comes=1),
}
