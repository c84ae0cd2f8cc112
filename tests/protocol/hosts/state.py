"""State of the model of hosts: tasks, agents that leave campaigns out, refusals.

Messages are no part of it: each request is carried out once and answered at once. What becomes of
those that are late, lost or repeated, the model of leases explores.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.state import DONE, FAILED, NONE, WAITING

REFUSED = "refused"
OPEN, PAUSED = "open", "paused"

#: The session of what is leased ahead; nobody's.
POOL = -2

#: How long a task has waited for another host: less than two minutes, less than a day, longer.
MINUTES, DAY, LONGER = 2, 1, 0


class Task(NamedTuple):
    """A row of the queue's; what it says of a claim is empty where nobody has the task.

    avoids: the hosts that the queue has written down. tried: those on which it has failed, or was
    lost again and stood out, since an operator's last retry; the rules compare with these.
    revision: the campaign's at the claim. refused_since: its agent has refused the
    campaign since.
    """

    campaign: int
    status: str = WAITING
    failures: int = 0
    losses: int = 0
    avoids: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()
    patience: int = MINUTES
    session: int = NONE
    revision: int = 0
    refused_since: bool = False


class Rest(NamedTuple):
    """An agent leaves a campaign out: of which revision, the how manyth time, for how long yet."""

    revision: int
    pauses: int
    left: int


class Agent(NamedTuple):
    """What an agent knows; session: NONE while it is gone; rests: one for each campaign."""

    session: int
    rests: tuple[Rest | None, ...]


class Session(NamedTuple):
    """A session, of an agent; open: as the queue knows."""

    agent: int
    open: bool = True


class Refusal(NamedTuple):
    """What the queue knows of an agent that cannot run a campaign.

    times: since anybody has succeeded; pauses: without regard to others. left: how long yet the
    agent surely leaves it out.
    """

    session: int
    times: int = 1
    pauses: int = 1
    left: int = 1


class Campaign(NamedTuple):
    """A campaign; why: the hosts for which it has paused itself.

    succeeded: whether somebody has since the keeper's last look; None: it has not looked.
    agreed: how often each session has refused it since it was changed and anybody has succeeded;
    the rules compare with these.
    """

    status: str = OPEN
    why: tuple[int, ...] = ()
    revision: int = 1
    succeeded: bool | None = None
    refusals: tuple[Refusal, ...] = ()
    agreed: tuple[tuple[int, int], ...] = ()


class State(NamedTuple):
    """All there is.

    goes, comes, words: how often an agent may still go, come back, and an operator speak.
    """

    tasks: tuple[Task, ...]
    agents: tuple[Agent, ...]
    sessions: tuple[Session, ...]
    campaigns: tuple[Campaign, ...]
    goes: int = 0
    comes: int = 0
    words: int = 0


class Bounds(NamedTuple):
    """How much of everything one exploration looks at.

    hosts: of each agent. can: what becomes of tasks there, by campaign. tasks: the campaign of
    each. witnesses, times: how many hosts must agree, or how often one that is alone must refuse,
    before a campaign pauses (three and three, as shipped). longest: the longest pause. goes: how
    often agents crash or leave; comes: come back. words: of operators; mends: a change of the
    campaign is the repair. ahead: tasks are leased ahead. day: a day may pass.
    """

    hosts: tuple[int, ...]
    can: tuple[tuple[tuple[str, ...], ...], ...]
    tasks: tuple[int, ...] = (0,)
    slots: int = 1
    max_attempts: int = 2
    witnesses: int = 2
    times: int = 2
    longest: int = 2
    goes: int = 0
    comes: int = 0
    words: int = 0
    mends: bool = False
    ahead: bool = False
    day: bool = False


#: What is on a host: all goes well or not; nothing does; it cannot be run; it cannot at times.
WELL = (DONE, FAILED)
BAD = (FAILED,)
LACKING = (REFUSED,)
SHAKY = (DONE, REFUSED)


def initial(bounds: Bounds) -> State:
    """Return where an exploration begins: all tasks wait, each agent has opened a session."""
    campaigns = len(bounds.can[0])
    return State(
        tasks=tuple(Task(campaign) for campaign in bounds.tasks),
        agents=tuple(Agent(number, (None,) * campaigns) for number in range(len(bounds.hosts))),
        sessions=tuple(Session(number) for number in range(len(bounds.hosts))),
        campaigns=(Campaign(),) * campaigns,
        goes=bounds.goes,
        comes=bounds.comes,
        words=bounds.words,
    )
