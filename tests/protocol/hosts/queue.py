"""Steps of the queue and its agents that concern hosts, as docs/task-life.md tells them.

What is small here is a place where a protocol can be wrong: the variants override it. The names are
those of sql/functions, and of agents/taskq_agent/backoff.py.
"""

from __future__ import annotations

from tests.protocol.hosts.state import (
    DAY,
    MINUTES,
    OPEN,
    PAUSED,
    POOL,
    Bounds,
    Campaign,
    Refusal,
    Rest,
    State,
    Task,
)
from tests.protocol.state import DONE, FAILED, NONE, WAITING, WORKING


class HostQueue:
    """The protocol as it is shipped."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    # Where a task may go

    def hosts_serving(self, state: State, campaign: int) -> set[int]:
        """Return the hosts of open sessions that do not leave the campaign out."""
        return {
            self.bounds.hosts[session.agent]
            for number, session in enumerate(state.sessions)
            if session.open and self.serves(state.campaigns[campaign], number)
        }

    def serves(self, campaign: Campaign, session: int) -> bool:
        """Return whether a session is not known to leave a campaign out."""
        return not any(refusal.session == session and refusal.left for refusal in campaign.refusals)

    def is_bound(self, state: State, task: Task) -> bool:
        """Return whether a task must not yet go to a host where it has failed."""
        return self.is_waited_for(task) and not self.hosts_serving(state, task.campaign) <= set(
            task.avoids
        )

    def is_waited_for(self, task: Task) -> bool:
        """Return whether a task has not waited for another host for too long."""
        last = task.failures > 0 and task.failures + 1 >= self.bounds.max_attempts
        return task.patience >= (DAY if last else MINUTES)

    def may_take(self, state: State, task: Task, host: int) -> bool:
        """Return whether a host may have a task."""
        return host not in task.avoids or not self.is_bound(state, task)

    def may_lease_ahead(self, state: State, task: Task) -> bool:
        """Return whether any host may have a task."""
        return not (task.avoids and self.is_bound(state, task))

    # What becomes of attempts

    def failed(self, task: Task, host: int) -> Task:
        """Return a task that has failed on a host."""
        failures = task.failures + 1
        final = failures >= self.bounds.max_attempts
        return waiting(task)._replace(
            status=FAILED if final else WAITING,
            failures=failures,
            avoids=() if final else tuple(sorted({*task.avoids, host})),
            tried=() if final else tuple(sorted({*task.tried, host})),
            patience=MINUTES,
        )

    def handed_back(self, task: Task) -> Task:
        """Return a task that is handed back."""
        return waiting(task)

    def lost(self, task: Task, host: int, most: int) -> Task:
        """Return a task whose agent is lost; most: losses of the others that are lost with it."""
        after = waiting(task)._replace(losses=task.losses + 1)
        if task.losses <= max(most, 0):
            return after
        return after._replace(
            avoids=tuple(sorted({*task.avoids, host})),
            tried=tuple(sorted({*task.tried, host})),
            patience=MINUTES,
        )

    def refused(self, task: Task) -> Task:
        """Return a task that was refused."""
        return self.handed_back(task)

    def retried(self, task: Task) -> Task:
        """Return a task that an operator gives another chance."""
        return Task(task.campaign)

    # Refusals, as the queue knows them

    def note_refusal(self, campaign: Campaign, task: Task) -> Campaign:
        """Return a campaign that was refused once more."""
        if not self.is_noted(campaign, task):
            return campaign
        known = {refusal.session: refusal for refusal in campaign.refusals}
        value = known.get(task.session)
        if value is None:
            value = Refusal(task.session)
        else:
            times = min(value.times + self.is_another(task), self.bounds.times)
            value = value._replace(times=times)
            if not task.refused_since:
                pauses = min(value.pauses + 1, self.bounds.longest)
                value = value._replace(pauses=pauses, left=self.pause(pauses))
        known[task.session] = value
        return campaign._replace(refusals=tuple(sorted(known.values())))

    def is_noted(self, campaign: Campaign, task: Task) -> bool:
        """Return whether what was claimed of the campaign was as it is now."""
        return task.revision == campaign.revision

    def is_another(self, task: Task) -> bool:
        """Return whether the agent tried the campaign again, and not side by side."""
        return not task.refused_since

    def pause(self, pauses: int) -> int:
        """Return for how long an agent leaves a campaign out."""
        return min(1 << (pauses - 1), self.bounds.longest)

    def looked(self, campaign: Campaign) -> Campaign:
        """Return a campaign of which the keeper has seen that somebody succeeds."""
        refusals = campaign.refusals
        if campaign.succeeded:
            refusals = tuple(refusal._replace(times=0) for refusal in refusals)
        return campaign._replace(succeeded=False, refusals=refusals)

    def pause_refused(self, state: State, number: int) -> Campaign:
        """Return a campaign after the keeper's look at it."""
        campaign = state.campaigns[number]
        if campaign.status != OPEN or not campaign.refusals:
            return campaign
        if campaign.succeeded is not False:
            return self.looked(campaign)
        count = [refusal for refusal in campaign.refusals if refusal.times]
        hosts = {self.witness(state, refusal.session) for refusal in count}
        if self.many(state, number, hosts) or self.all_of_them(
            state, hosts, max((refusal.times for refusal in count), default=0)
        ):
            return campaign._replace(status=PAUSED, why=tuple(sorted(hosts)))
        return campaign

    def witness(self, state: State, session: int) -> int:
        """Return who has refused: the host of a session."""
        return self.bounds.hosts[state.sessions[session].agent]

    def many(self, state: State, campaign: int, hosts: set[int]) -> bool:
        """Return whether enough hosts agree, and no other may be running the campaign."""
        others = hosts_working(self.bounds, state, campaign) - hosts
        return len(hosts) >= self.bounds.witnesses and not others

    def all_of_them(self, state: State, hosts: set[int], times: int) -> bool:
        """Return whether all hosts agree, and one that has tried often enough."""
        return times >= self.bounds.times and hosts_open(self.bounds, state) <= hosts

    # Operators

    def change(self, campaign: Campaign) -> Campaign:
        """Return a campaign that was changed: what was refused says nothing about it."""
        return Campaign(campaign.status, campaign.why, campaign.revision + 1)

    def resume(self, campaign: Campaign) -> Campaign:
        """Return a campaign that is opened again."""
        return self.change(campaign)._replace(status=OPEN, why=())

    # Agents

    def rests(self, rest: Rest | None, task: Task) -> Rest:
        """Return how an agent leaves a campaign out once it could not run a task of it."""
        if rest is not None and task.refused_since and task.revision <= rest.revision:
            return rest
        if rest is None or rest.revision != task.revision:
            return Rest(task.revision, 1, 1)
        pauses = rest.pauses + 1
        return Rest(task.revision, min(pauses, self.bounds.longest), self.pause(pauses))

    def leaves_out(self, state: State, agent: int, campaign: int) -> bool:
        """Return whether an agent claims nothing of a campaign: not yet, or one task at a time."""
        rest = state.agents[agent].rests[campaign]
        if rest is None or rest.revision != state.campaigns[campaign].revision:
            return False
        session = state.agents[agent].session
        held = any(
            (task.status, task.session, task.campaign) == (WORKING, session, campaign)
            for task in state.tasks
        )
        return rest.left > 0 or held

    def leaves(self) -> bool:
        """Return whether an agent leaves the queue that cannot run a campaign."""
        return False


def waiting(task: Task) -> Task:
    """Return a task that nobody has."""
    return task._replace(status=WAITING, session=NONE, revision=0, refused_since=False)


def done(task: Task) -> Task:
    """Return a task that is done."""
    return Task(task.campaign, DONE)


def taken(state: State, task: Task, session: int) -> Task:
    """Return a task that somebody has claimed."""
    revision = state.campaigns[task.campaign].revision
    return task._replace(status=WORKING, session=session, revision=revision)


def hosts_open(bounds: Bounds, state: State) -> set[int]:
    """Return the hosts of all open sessions."""
    return {bounds.hosts[session.agent] for session in state.sessions if session.open}


def hosts_working(bounds: Bounds, state: State, campaign: int) -> set[int]:
    """Return the hosts that have tasks of a campaign in hand."""
    return {
        bounds.hosts[state.sessions[task.session].agent]
        for task in state.tasks
        if (task.status, task.campaign) == (WORKING, campaign)
        and task.session != POOL
        and state.sessions[task.session].open
    }
