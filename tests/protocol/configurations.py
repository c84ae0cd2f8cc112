"""Which corners of the protocol are explored, each with all that can happen in it."""

from __future__ import annotations

from tests.protocol.state import DONE, FAILED, OUT_OF_TIME, REFUSED, RELEASED, Bounds

ONE_EACH = Bounds(leases=1)

#: Explored in every run of the tests, within half a minute.
BRIEF = {
    "late beats": ONE_EACH._replace(late=True, outcomes=(DONE,)),
    "handing back": ONE_EACH._replace(outcomes=(DONE, FAILED, RELEASED)),
    "two tasks": ONE_EACH._replace(tasks=2, outcomes=(DONE,)),
    "crashes": Bounds(agents=1, crashes=1, returns=1),
    "races": ONE_EACH._replace(slow=True, look=True, leaving=True),
    "out of time": ONE_EACH._replace(words=1, outcomes=(OUT_OF_TIME, DONE)),
    "operators": ONE_EACH._replace(words=2, max_attempts=1),
    "late results": ONE_EACH._replace(salvage=True, words=1),
    "hedging": ONE_EACH._replace(salvage=True, hedge=True),
    "batches": Bounds(agents=1, tasks=2, batch=True, outcomes=(DONE,)),
    "batches, again": ONE_EACH._replace(batch=True, salvage=True, outcomes=(DONE, FAILED)),
    "front": ONE_EACH._replace(ahead=1, outcomes=(DONE,)),
    "front, again": Bounds(agents=1, ahead=2, outcomes=(DONE,)),
    "front, late results": ONE_EACH._replace(ahead=1, salvage=True, max_losses=1, outcomes=(DONE,)),
    "failover": ONE_EACH._replace(failover=True, outcomes=(DONE,)),
    "hosts": ONE_EACH._replace(hosts=(0, 1), outcomes=(FAILED, REFUSED)),
}

#: The same, with more of everything.
LARGE = {
    "late beats": ONE_EACH._replace(late=True),
    "batches": Bounds(agents=1, tasks=2, returns=1, batch=True, outcomes=(DONE,)),
    "batches, crashes": Bounds(agents=1, crashes=1, returns=1, batch=True, salvage=True),
    "two claims each": Bounds(),
    "three attempts": Bounds(leases=2, max_attempts=3, max_losses=3, outcomes=(FAILED,)),
    "out of time": Bounds(words=1, outcomes=(OUT_OF_TIME, DONE)),
    "two tasks": ONE_EACH._replace(tasks=2),
    "crashes": ONE_EACH._replace(crashes=1, returns=1),
    "races": ONE_EACH._replace(tasks=2, slow=True, look=True, leaving=True, outcomes=(DONE,)),
    "operators": ONE_EACH._replace(words=3),
    "late results": ONE_EACH._replace(
        salvage=True, words=1, crashes=1, returns=1, outcomes=(DONE,)
    ),
    "hedging": ONE_EACH._replace(
        salvage=True, hedge=True, words=1, outcomes=(DONE, FAILED, RELEASED)
    ),
    "hedging, crashes": ONE_EACH._replace(
        salvage=True, hedge=True, crashes=1, returns=1, outcomes=(DONE,)
    ),
    "hedging, hosts, front": ONE_EACH._replace(
        salvage=True, hedge=True, hosts=(0, 1), ahead=1, outcomes=(DONE, FAILED)
    ),
    "front": ONE_EACH._replace(ahead=1),
    "front, operators": ONE_EACH._replace(ahead=1, words=2, outcomes=(DONE,)),
    "front, crashes": Bounds(agents=1, ahead=2, crashes=1, returns=1, outcomes=(DONE,)),
    "failover": ONE_EACH._replace(failover=True),
    "refusals": Bounds(hosts=(0, 1), outcomes=(REFUSED,)),
    "hosts, front": ONE_EACH._replace(hosts=(0, 1), ahead=1, outcomes=(DONE, FAILED, REFUSED)),
    "hosts, crashes": ONE_EACH._replace(
        hosts=(0, 1), crashes=1, returns=1, outcomes=(FAILED, REFUSED)
    ),
    "hosts, late results": ONE_EACH._replace(
        hosts=(0, 1), salvage=True, words=1, outcomes=(DONE, FAILED, REFUSED)
    ),
}
