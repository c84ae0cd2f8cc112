"""Promises about hosts, said anew and without a look at how they are kept."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.hosts.queue import HostQueue, hosts_open, hosts_working
from tests.protocol.hosts.state import (
    DAY,
    LACKING,
    MINUTES,
    OPEN,
    PAUSED,
    REFUSED,
    Bounds,
    State,
    Task,
)
from tests.protocol.state import NONE, WAITING, WORKING, Step

ELSEWHERE = "a task is not handed to a host it failed on while another could take it"
SOON = "a task that was lost and never failed may go anywhere after two minutes"
LAST = "the last attempt is not made on a host it failed on while another could make it"
STRANDED = "a task that waits has a host that may take it and serves its campaign"
NO_COST = "a refusal costs the task nothing"
LEFT_OUT = "an agent that has refused a campaign leaves it out for a while"
OTHERS = "an agent that leaves a campaign out serves the others"
AGREED = "a campaign pauses itself only when enough hosts have refused it as it is now"
WHY = "a campaign that has paused itself says which hosts refuse it, any other none"
ANEW = "a campaign that is changed or resumed is tried again at once"
ENDS = "every task can become final, or its campaign pauses, without anybody's help"


def broken_state(queue: HostQueue, state: State) -> Iterator[str]:
    """Yield the rules that a state breaks."""
    if any(bool(campaign.why) != (campaign.status == PAUSED) for campaign in state.campaigns):
        yield WHY
    for task in state.tasks:
        if task.status != WAITING or state.campaigns[task.campaign].status != OPEN:
            continue
        serving = _may_be_serving(queue.bounds, state, task.campaign)
        if serving and not any(queue.may_take(state, task, host) for host in serving):
            yield STRANDED
        if (
            not task.failures
            and task.patience < MINUTES
            and not all(queue.may_take(state, task, host) for host in queue.bounds.hosts)
        ):
            yield SOON
        for number, agent in enumerate(state.agents):
            host = queue.bounds.hosts[number]
            if (
                agent.session != NONE
                and agent.rests[task.campaign] is None
                and any(agent.rests)
                and queue.leaves_out(state, number, task.campaign)
                and queue.may_take(state, task, host)
            ):
                yield OTHERS


def broken_step(queue: HostQueue, before: State, step: Step, after: State) -> Iterator[str]:
    """Yield the rules that a step breaks."""
    bounds = queue.bounds
    if step.kind in {"claim", "lease ahead"}:
        yield from _broken_claim(bounds, before, step)
    elif step.kind == "end" and step.said == REFUSED:
        was, now = before.tasks[step.task], after.tasks[step.task]
        if (now.status, *_kept(now)) != (WAITING, *_kept(was)):
            yield NO_COST
    elif step.kind == "pause":
        campaign = before.campaigns[int(step.note)]
        if not _agree(bounds, before, int(step.note)):
            yield AGREED
        refusers = {_host(bounds, before, session) for session, _ in campaign.agreed}
        if not set(after.campaigns[int(step.note)].why) <= refusers:
            yield WHY
    elif step.kind in {"resume", "change"}:
        number = int(step.note)
        if after.campaigns[number].refusals or any(
            queue.leaves_out(after, count, number)
            for count, agent in enumerate(after.agents)
            if agent.session != NONE and not _holds(after, agent.session, number)
        ):
            yield ANEW


def _broken_claim(bounds: Bounds, state: State, step: Step) -> Iterator[str]:
    task = state.tasks[step.task]
    hosts = {bounds.hosts[step.agent]} if step.agent != NONE else set(bounds.hosts)
    others = _surely_serving(bounds, state, task.campaign) - set(task.tried)
    if hosts & set(task.tried) and others:
        if task.patience >= MINUTES:
            yield ELSEWHERE
        elif task.patience >= DAY and 0 < task.failures >= bounds.max_attempts - 1:
            yield LAST
    if step.agent != NONE:
        agent, campaign = state.agents[step.agent], state.campaigns[task.campaign]
        lacking = _is_lacking(bounds, state, step.agent, task.campaign)
        if lacking and any(
            refusal.session == agent.session and refusal.left for refusal in campaign.refusals
        ):
            yield LEFT_OUT


def _agree(bounds: Bounds, state: State, number: int) -> bool:
    """Return whether enough hosts refused a campaign, and no other has shown that it can run."""
    agreed = state.campaigns[number].agreed
    hosts = {_host(bounds, state, session) for session, _ in agreed}
    if len(hosts) >= bounds.witnesses and hosts_working(bounds, state, number) <= hosts:
        return True
    often = any(times >= bounds.times for _, times in agreed)
    return often and hosts_open(bounds, state) <= hosts


def _surely_serving(bounds: Bounds, state: State, campaign: int) -> set[int]:
    """Return the hosts of agents that are there and do not leave a campaign out.

    What an agent that has refused has run since, the queue does not know.
    """
    unknown = {refusal.session for refusal in state.campaigns[campaign].refusals if refusal.left}
    return {
        bounds.hosts[number]
        for number, agent in enumerate(state.agents)
        if agent.session != NONE
        and not _rests(state, number, campaign)
        and not (agent.session in unknown and not _is_lacking(bounds, state, number, campaign))
    }


def _may_be_serving(bounds: Bounds, state: State, campaign: int) -> set[int]:
    """Return the hosts of agents that serve a campaign, for all that the queue can know."""
    return {
        bounds.hosts[session.agent]
        for number, session in enumerate(state.sessions)
        if session.open
        and not (
            state.agents[session.agent].session == number and _rests(state, session.agent, campaign)
        )
    }


def _rests(state: State, agent: int, campaign: int) -> bool:
    rest = state.agents[agent].rests[campaign]
    return (
        rest is not None and rest.revision == state.campaigns[campaign].revision and rest.left > 0
    )


def _is_lacking(bounds: Bounds, state: State, agent: int, campaign: int) -> bool:
    """Return whether no task of the campaign can run on an agent's host."""
    mended = bounds.mends and state.campaigns[campaign].revision > 1
    return not mended and bounds.can[agent][campaign] == LACKING


def _kept(task: Task) -> tuple[object, ...]:
    return task.failures, task.losses, task.avoids, task.tried, task.patience


def _holds(state: State, session: int, campaign: int) -> bool:
    return any(
        (task.status, task.session, task.campaign) == (WORKING, session, campaign)
        for task in state.tasks
    )


def _host(bounds: Bounds, state: State, session: int) -> int:
    return bounds.hosts[state.sessions[session].agent]
