"""Everything that can happen around hosts: agents, keepers, operators, time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.protocol.hosts import rules
from tests.protocol.hosts.queue import HostQueue, done, taken, waiting
from tests.protocol.hosts.state import (
    DAY,
    LONGER,
    MINUTES,
    OPEN,
    PAUSED,
    POOL,
    REFUSED,
    Agent,
    Campaign,
    Rest,
    Session,
    State,
    Task,
    initial,
)
from tests.protocol.state import CANCELLED, DONE, FAILED, FINAL, NONE, WAITING, WORKING, Step

Next = Iterator[tuple[Step, State]]


class HostWorld:
    """A queue, and all who deal with it."""

    ends = rules.ENDS

    def __init__(self, queue: HostQueue) -> None:
        self.queue = queue
        self.bounds = queue.bounds
        self._parts: list[Callable[[State], Next]] = [self._agents, self._keeper, self._time]
        if self.bounds.ahead:
            self._parts += [self._front]

    def initial(self) -> State:
        """Return where it begins."""
        return initial(self.bounds)

    def after(self, state: State) -> Next:
        """Return all that can happen next."""
        for part in self._parts:
            yield from part(state)
        if state.words:
            yield from self._operator(state)

    def broken_state(self, state: State) -> Iterator[str]:
        """Yield the rules that a state breaks."""
        return rules.broken_state(self.queue, state)

    def broken_step(self, before: State, step: Step, after: State) -> Iterator[str]:
        """Yield the rules that a step breaks."""
        return rules.broken_step(self.queue, before, step, after)

    def has_ended(self, state: State) -> bool:
        """Return whether every task is final, or its campaign waits for an operator."""
        return all(
            task.status in FINAL or state.campaigns[task.campaign].status == PAUSED
            for task in state.tasks
        )

    # Agents

    def _agents(self, state: State) -> Next:
        for number, agent in enumerate(state.agents):
            if agent.session == NONE:
                if state.comes:
                    yield self._come_back(state, number)
                continue
            held = [n for n, task in enumerate(state.tasks) if _has(agent, task)]
            if len(held) < self.bounds.slots:
                yield from self._claim(state, number, agent)
            for task in held:
                yield from self._end(state, number, task)
            if state.goes:
                after = seat(state, number, Agent(NONE, (None,) * len(agent.rests)))
                after = after._replace(goes=state.goes - 1)
                yield Step("crash", number, fault=True), after
                yield Step("leave", number, fault=True), self._closed(after, agent.session)

    def _claim(self, state: State, number: int, agent: Agent) -> Next:
        host = self.bounds.hosts[number]
        for n, task in enumerate(state.tasks):
            if (
                task.status == WAITING
                and state.campaigns[task.campaign].status == OPEN
                and not self.queue.leaves_out(state, number, task.campaign)
                and self.queue.may_take(state, task, host)
            ):
                yield Step("claim", number, n), put(state, n, taken(state, task, agent.session))

    def _end(self, state: State, number: int, n: int) -> Next:
        task, agent = state.tasks[n], state.agents[number]
        campaign = state.campaigns[task.campaign]
        mended = self.bounds.mends and task.revision > 1
        for said in (DONE,) if mended else self.bounds.can[number][task.campaign]:
            step = Step("end", number, n, said=said)
            if said == REFUSED:
                yield step, self._refuse(state, number, n)
                continue
            after = seat(state, number, agent._replace(rests=_with(agent.rests, task, None)))
            if said == FAILED:
                yield step, put(after, n, self.queue.failed(task, self.bounds.hosts[number]))
                continue
            if campaign.succeeded is not None:
                # The keeper's first look may miss what came before it.
                campaign = campaign._replace(succeeded=True, agreed=())
            yield step, put(with_campaign(after, task.campaign, campaign), n, done(task))

    def _refuse(self, state: State, number: int, n: int) -> State:
        task, agent = state.tasks[n], state.agents[number]
        campaign = state.campaigns[task.campaign]
        rest = self.queue.rests(agent.rests[task.campaign], task)
        noted = self.queue.note_refusal(campaign, task)
        if task.revision == campaign.revision and not task.refused_since:
            agreed = dict(campaign.agreed)
            times = min(agreed.get(task.session, 0) + 1, self.bounds.times)
            agreed[task.session] = times
            noted = noted._replace(agreed=tuple(sorted(agreed.items())))
        after = with_campaign(state, task.campaign, noted)
        after = seat(after, number, agent._replace(rests=_with(agent.rests, task, rest)))
        tasks = list(after.tasks)
        tasks[n] = self.queue.refused(task)
        for other, other_task in enumerate(tasks):
            if other != n and _has(agent, other_task) and other_task.campaign == task.campaign:
                tasks[other] = other_task._replace(refused_since=True)
        after = after._replace(tasks=tuple(tasks))
        if self.queue.leaves():
            after = seat(after, number, Agent(NONE, (None,) * len(agent.rests)))
            after = self._closed(after, agent.session)
        return after

    def _come_back(self, state: State, number: int) -> tuple[Step, State]:
        agent = state.agents[number]._replace(session=len(state.sessions))
        after = state._replace(sessions=(*state.sessions, Session(number)), comes=state.comes - 1)
        return Step("come back", number, fault=True), seat(after, number, agent)

    def _closed(self, state: State, session: int) -> State:
        """End a session; what it has waits again."""
        sessions = list(state.sessions)
        sessions[session] = sessions[session]._replace(open=False)
        tasks = tuple(
            self.queue.handed_back(task)
            if (task.status, task.session) == (WORKING, session)
            else task
            for task in state.tasks
        )
        return state._replace(sessions=tuple(sessions), tasks=tasks)

    def _expired(self, state: State, session: int) -> State:
        """End a silent session; what it has was lost."""
        after = self._closed(state, session)
        host = self.bounds.hosts[state.sessions[session].agent]
        held = {
            n: task
            for n, task in enumerate(state.tasks)
            if (task.status, task.session) == (WORKING, session)
        }
        for n, task in held.items():
            most = max((task.losses for m, task in held.items() if m != n), default=0)
            after = put(after, n, self.queue.lost(task, host, most))
        return after

    # Upkeep and time

    def _keeper(self, state: State) -> Next:
        for number, campaign in enumerate(state.campaigns):
            after = self.queue.pause_refused(state, number)
            if after != campaign:
                kind = "pause" if after.status == PAUSED else "look at refusals"
                yield Step(kind, note=str(number)), with_campaign(state, number, after)
        for session, (agent, is_open) in enumerate(state.sessions):
            if is_open and state.agents[agent].session != session:
                yield Step("expire", agent, session=session), self._expired(state, session)

    def _time(self, state: State) -> Next:
        agents = tuple(
            agent._replace(
                rests=tuple(
                    rest and rest._replace(left=max(0, rest.left - 1)) for rest in agent.rests
                )
            )
            for agent in state.agents
        )
        campaigns = tuple(
            campaign._replace(
                refusals=tuple(
                    known._replace(left=max(0, known.left - 1)) for known in campaign.refusals
                )
            )
            for campaign in state.campaigns
        )
        after = state._replace(agents=agents, campaigns=campaigns)
        if after != state:
            yield Step("let a pause's time pass"), after
        for n, task in enumerate(state.tasks):
            if task.status != WAITING or not task.avoids:
                continue
            if task.patience == MINUTES:
                later = put(state, n, task._replace(patience=DAY))
                yield Step("let two minutes pass", task=n, fault=True), later
            elif task.patience == DAY and self.bounds.day:
                later = put(state, n, task._replace(patience=LONGER))
                yield Step("let a day pass", task=n, fault=True), later

    # The front

    def _front(self, state: State) -> Next:
        for n, task in enumerate(state.tasks):
            if task.status == WAITING and state.campaigns[task.campaign].status == OPEN:
                if self.queue.may_lease_ahead(state, task):
                    ahead = put(state, n, taken(state, task, POOL))
                    yield Step("lease ahead", task=n, fault=True), ahead
            elif (task.status, task.session) == (WORKING, POOL):
                yield Step("pass the pool's deadline", task=n), put(state, n, waiting(task))
                for number, agent in enumerate(state.agents):
                    if agent.session != NONE and not any(_has(agent, t) for t in state.tasks):
                        popped = put(state, n, task._replace(session=agent.session))
                        yield Step("pop", number, n), popped

    # Operators

    def _operator(self, state: State) -> Next:
        said = state._replace(words=state.words - 1)
        for number, campaign in enumerate(state.campaigns):
            note = str(number)
            if campaign.status == PAUSED:
                after = with_campaign(said, number, self.queue.resume(campaign))
                yield Step("resume", note=note, fault=True), after
            else:
                after = with_campaign(said, number, self.queue.change(campaign))
                yield Step("change", note=note, fault=True), after
        for n, task in enumerate(state.tasks):
            if task.status in {FAILED, CANCELLED}:
                yield Step("retry", task=n, fault=True), put(said, n, self.queue.retried(task))


def put(state: State, number: int, task: Task) -> State:
    """Return the state with another row for a task."""
    tasks = state.tasks
    return state._replace(tasks=(*tasks[:number], task, *tasks[number + 1 :]))


def seat(state: State, number: int, agent: Agent) -> State:
    """Return the state with an agent changed."""
    agents = state.agents
    return state._replace(agents=(*agents[:number], agent, *agents[number + 1 :]))


def with_campaign(state: State, number: int, campaign: Campaign) -> State:
    """Return the state with a campaign changed."""
    campaigns = state.campaigns
    return state._replace(campaigns=(*campaigns[:number], campaign, *campaigns[number + 1 :]))


def _has(agent: Agent, task: Task) -> bool:
    return task.status == WORKING and task.session == agent.session


def _with(rests: tuple[Rest | None, ...], task: Task, rest: Rest | None) -> tuple[Rest | None, ...]:
    return (*rests[: task.campaign], rest, *rests[task.campaign + 1 :])
