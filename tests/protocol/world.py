"""Everything that can happen: agents, their gateways and Redis, keepers, operators, the network.

An answer arrives when the request is carried out, or never. That leaves nothing out: until an
answer arrives the agent does nothing that depends on it, and what others do meanwhile does not
change the answer. Orders to stop are the exception, and are messages of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.protocol import rules
from tests.protocol.queue import FIRST_AHEAD, Queue, ended, locked
from tests.protocol.state import (
    CANCELLED,
    DELAYED,
    DONE,
    FAILED,
    FINAL,
    LIVE,
    NONE,
    POOL,
    WAITING,
    Agent,
    Beat,
    Claim,
    Entry,
    Name,
    Report,
    Run,
    Session,
    State,
    Step,
    Stop,
    initial,
    put,
)

Next = Iterator[tuple[Step, State]]

#: The lease of one more agent, which is never in trouble; its claim and its report are one step.
SPARE = 80


class World:
    """A queue, and all who deal with it."""

    ends = rules.ENDS

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.bounds = queue.bounds
        self._parts: list[Callable[[State], Next]] = [self._messages, self._keeper, self._spare]
        self._parts += [self._agents]
        if self.bounds.ahead:
            self._parts += [self._front]
        if self.bounds.words:
            self._parts += [self._operator]
        if self.bounds.failover:
            self._parts += [self._standby]

    def initial(self) -> State:
        """Return where it begins."""
        return initial(self.bounds)

    def after(self, state: State) -> Next:
        """Return all that can happen next."""
        for part in self._parts:
            yield from part(state)

    def broken_state(self, state: State) -> Iterator[str]:
        """Yield the rules that a state breaks."""
        return rules.broken_state(self.queue, state)

    def broken_step(self, before: State, step: Step, after: State) -> Iterator[str]:
        """Yield the rules that a step breaks."""
        return rules.broken_step(self.bounds, before, step, after)

    def has_ended(self, state: State) -> bool:
        """Return whether every task is final."""
        return all(task.status in FINAL for task in state.tasks)

    # Agents

    def _agents(self, state: State) -> Next:
        for number, agent in enumerate(state.agents):
            if agent.session == NONE:
                yield from self._come_back(state, number)
            else:
                yield from self._claim(state, number, agent)
                yield from self._work(state, number, agent)
                yield from self._go(state, number, agent)

    def _claim(self, state: State, number: int, agent: Agent) -> Next:
        if agent.call != NONE:
            yield Step("give up a claim", number, fault=True), seat(state, number, call=NONE)
            return
        # Agents are alike: it is the first that claims first.
        if agent.drawn == self.bounds.leases or not (number == 0 or state.agents[0].drawn):
            return
        lease = 10 * (number + 1) + agent.drawn
        after = seat(state, number, drawn=agent.drawn + 1, call=lease)
        after = after._replace(sent=after.sent | {Claim(agent.session, lease)})
        yield Step("ask for a task", number, lease=lease), after

    def _work(self, state: State, number: int, agent: Agent) -> Next:
        for run in agent.hand:
            if run.said:
                continue
            if self.bounds.batch and not run.begun:
                after = seat(
                    state, number, hand=replaced(agent.hand, run, run._replace(begun=True))
                )
                after = after._replace(began=state.began | {(run.task, run.lease)})
                yield Step("begin", number, run.task, run.lease), after
            for outcome in self.bounds.outcomes:
                hand = replaced(agent.hand, run, run._replace(said=outcome))
                after = seat(state, number, hand=hand)
                word = Report(agent.session, run.task, run.lease, run.attempt, outcome)
                after = after._replace(sent=after.sent | {word})
                yield Step("end", number, run.task, run.lease, said=outcome), after
        held = tuple((run.task, run.lease) for run in agent.hand if not run.inherited)
        begun = frozenset((run.task, run.lease) for run in agent.hand if run.begun)
        beat = Beat(agent.session, held, agent.call, 10 * (number + 1) + agent.drawn - 1, begun)
        if not self.bounds.late:
            yield from self._beat(state, beat)
        elif beat not in state.sent:
            # The newest takes the place of the one before.
            sent = {step for step in state.sent if not is_beat(step, agent.session)}
            yield Step("beat", number), state._replace(sent=frozenset(sent | {beat}))

    def _go(self, state: State, number: int, agent: Agent) -> Next:
        if state.crashes:
            spool = tuple(run._replace(inherited=True) for run in agent.hand if run.said)
            after = seat(state, number, session=NONE, call=NONE, hand=spool)
            step = Step("crash", number, fault=True)
            yield step, after._replace(crashes=state.crashes - 1)
        if state.sessions[agent.session].status != LIVE:
            after = seat(state, number, session=NONE, call=NONE)
            yield Step("hear that the session has ended", number), self._opened(after, number)
        elif self.bounds.leaving and not agent.hand:
            after = self.queue.leave(state, agent.session)
            after = seat(after, number, session=NONE, call=NONE)
            yield Step("leave", number, fault=True), after

    def _come_back(self, state: State, number: int) -> Next:
        after = self._opened(state, number)
        if after != state:
            yield Step("come back", number), after

    def _opened(self, state: State, number: int) -> State:
        """Open a new session, if there may be another, and send by it what was not heard of."""
        if len(state.sessions) > self.bounds.agents + self.bounds.returns:
            return state
        session = len(state.sessions)
        words = {
            Report(session, run.task, run.lease, run.attempt, run.said)
            for run in state.agents[number].hand
            if run.said
        }
        state = state._replace(sessions=(*state.sessions, Session(number)), sent=state.sent | words)
        return seat(state, number, session=session)

    # Messages

    def _messages(self, state: State) -> Next:
        for message in state.sent:
            if isinstance(message, Report):
                yield from self._report(state, message)
            elif isinstance(message, Claim):
                yield from self._answer(state, message)
            elif isinstance(message, Beat):
                yield from self._beat(state, message)
            elif isinstance(message, Stop):
                yield from self._stop(state, message)
            else:
                fence = message.task, message.lease
                if not locked(state, message.task):
                    after = self.queue.name(state, message.session, fence)
                    yield Step("name", task=message.task, lease=message.lease), after
        if state.slow is not None:
            session, lease, task = state.slow
            after = state._replace(slow=None)
            claim = Claim(session, lease)
            after = put(after, task, self.queue.taken(after.tasks[task], claim))
            yield from self._answered("commit a claim", after, claim, task)

    def _answer(self, state: State, claim: Claim) -> Next:
        for after, task in self.queue.claim(state, claim):
            yield from self._answered("claim", after, claim, task)
            if self.bounds.slow and state.slow is None and after != state and task is not None:
                looked = state._replace(slow=(claim.session, claim.lease, task))
                yield Step("look for a task", task=task, lease=claim.lease), looked

    def _answered(self, kind: str, after: State, claim: Claim, task: int | None) -> Next:
        number = after.sessions[claim.session].agent
        agent = after.agents[number]
        answer = NONE if task is None else task
        waits = (agent.session, agent.call) == (claim.session, claim.lease)
        step = Step(kind, number, answer, claim.lease, "unheard", True, claim.session)
        # What has begun comes to its end, be it that nobody waits for it any more.
        yield step._replace(fault=waits or kind == "claim"), after
        if waits:
            after = seat(after, number, call=NONE)
            if task is not None:
                after = handed(after, number, task, claim.lease, after.tasks[task].attempt)
            yield step._replace(note="heard", fault=False), after

    def _report(self, state: State, report: Report) -> Next:
        if locked(state, report.task):
            return
        number = state.sessions[report.session].agent
        after, verdict = self.queue.report(state, report)
        step = Step("report", number, report.task, report.lease, verdict, session=report.session)
        step = step._replace(said=report.outcome, fault=True)
        yield step, after
        agent = after.agents[number]
        if agent.session == report.session:
            hand = tuple(
                run
                for run in agent.hand
                if (run.task, run.lease, run.said) != (report.task, report.lease, report.outcome)
            )
            if hand != agent.hand:
                yield step._replace(fault=False), seat(after, number, hand=hand)

    def _beat(self, state: State, beat: Beat) -> Next:
        if state.sessions[beat.session].status != LIVE:
            return
        after, stop = self.queue.beat(state, beat)
        number = state.sessions[beat.session].agent
        step = Step("square", number, session=beat.session)
        yield step._replace(fault=bool(stop)), after
        if stop:
            orders = {Stop(beat.session, *fence) for fence in stop}
            yield step._replace(note="stop"), after._replace(sent=after.sent | orders)

    def _stop(self, state: State, order: Stop) -> Next:
        number = state.sessions[order.session].agent
        agent = state.agents[number]
        after = state._replace(sent=state.sent - {order})
        if agent.session != order.session:
            yield Step("order comes too late", number), after
            return
        for run in agent.hand:
            if not run.said and self.queue.stops((run.task, run.lease), order.task, order.lease):
                step = Step("stop", number, run.task, run.lease, session=order.session)
                yield step, seat(after, number, hand=without(agent.hand, run))
                return
        yield Step("order is about nothing", number), after

    # Upkeep

    def _keeper(self, state: State) -> Next:
        queue = self.queue
        for session in range(1, len(state.sessions)):
            agent, status, _ = state.sessions[session]
            alive = state.agents[agent].session == session
            if status != LIVE:
                if queue.left_behind(state, session):
                    step = Step("sweep", agent, session=session)
                    yield step, self._forget(queue.sweep(state, session), session)
            elif not self.bounds.look:
                after = self._forget(queue.expire(state, session), session)
                yield Step("expire", agent, fault=alive, session=session), after
            elif state.look is None:
                fences = tuple(
                    (number, state.tasks[number].lease)
                    for number in queue.left_behind(state, session)
                )
                step = Step("look for silent sessions", agent, fault=alive, session=session)
                yield step, state._replace(look=(session, fences))
        if state.look is not None:
            session, fences = state.look
            after = queue.expire(state._replace(look=None), session, fences)
            yield Step("expire", session=session), self._forget(after, session)
        for number, task in enumerate(state.tasks):
            if self.bounds.hedge and queue.hedgeable(task) and not locked(state, number):
                step = Step("hedge", task=number, lease=task.lease, fault=True)
                yield step, put(state, number, queue.hedged(state, task))
            if task.status == DELAYED:
                yield (
                    Step("promote", task=number),
                    put(state, number, task._replace(status=WAITING)),
                )

    def _forget(self, state: State, session: int) -> State:
        """Drop what can do nothing any more: claims and beats of a session that has ended."""
        if state.replica is not None:
            return state  # on the standby it may live
        sent = frozenset(
            step
            for step in state.sent
            if not (isinstance(step, Claim | Beat) and step.session == session)
        )
        return state._replace(sent=sent)

    # The front

    def _front(self, state: State) -> Next:
        queue = self.queue
        for number, task in enumerate(state.tasks):
            if (
                state.ahead < self.bounds.ahead
                and queue.claimable(state, number, task, FIRST_AHEAD)
                and task.session != POOL
                and queue.may_take(state, task, POOL)
            ):
                lease = FIRST_AHEAD + state.ahead
                after = queue.lease_ahead(state, number, lease)._replace(ahead=state.ahead + 1)
                entry = Entry(number, lease, after.tasks[number].attempt)
                yield Step("lease ahead, lose it", task=number, lease=lease, fault=True), after
                pushed = after._replace(entries=state.entries | {entry})
                yield Step("lease ahead", task=number, lease=lease), pushed
            if queue.past_deadline(state, task):
                after = put(state, number, queue.unnamed(task))
                yield Step("pass the pool's deadline", task=number, lease=task.lease), after
        for entry in state.entries:
            yield from self._pop(state, entry)
            task = state.tasks[entry.task]
            if queue.nameable(task, entry.lease):
                back = queue.unclaimed(task)._replace(session=NONE)
                step = Step("give an entry back", task=entry.task, lease=entry.lease)
                yield step, put(state, entry.task, back)
        leased = frozenset(range(FIRST_AHEAD, FIRST_AHEAD + state.ahead))
        if leased != state.old:
            sent = frozenset(step for step in state.sent if not isinstance(step, Beat))
            after = state._replace(old=leased, entries=frozenset(), sent=sent)
            yield Step("let minutes pass"), after

    def _pop(self, state: State, entry: Entry) -> Next:
        for number, agent in enumerate(state.agents):
            if agent.call == NONE:
                continue
            after = seat(state, number, call=NONE)
            after = handed(after, number, entry.task, entry.lease, entry.attempt)
            name = Name(agent.session, entry.task, entry.lease)
            after = after._replace(sent=after.sent | {name})
            yield Step("pop", number, entry.task, entry.lease), after

    # Operators, a standby, and one more agent

    def _operator(self, state: State) -> Next:
        if not state.words:
            return
        said = state._replace(words=state.words - 1)
        for number, task in enumerate(state.tasks):
            if task.status not in FINAL and not locked(state, number):
                after = put(said, number, self.queue.cancel(task))
                yield Step("cancel", task=number, fault=True), after
            elif task.status in {FAILED, CANCELLED}:
                after = put(said, number, self.queue.retry(task))
                yield Step("retry", task=number, fault=True), after

    def _standby(self, state: State) -> Next:
        if state.replica is None:
            return
        tasks, sessions = state.replica
        yield Step("replicate"), state._replace(replica=(state.tasks, state.sessions))
        after = state._replace(tasks=tasks, sessions=sessions, replica=None)
        yield Step("fail over", fault=True), after

    def _spare(self, state: State) -> Next:
        for number, task in enumerate(state.tasks):
            if task.status == WAITING and not locked(state, number):
                taken = self.queue.taken(task, Claim(NONE, SPARE))
                done = ended(taken, DONE, NONE)._replace(status=DONE)
                yield Step("be done by another agent", task=number), put(state, number, done)


def seat(state: State, number: int, **changes: object) -> State:
    """Return the state with an agent changed."""
    agents = list(state.agents)
    agents[number] = agents[number]._replace(**changes)
    return state._replace(agents=tuple(agents))


def handed(state: State, number: int, task: int, lease: int, attempt: int) -> State:
    """Return the state with an attempt in an agent's hand, unless it is there already."""
    hand = state.agents[number].hand
    if any((run.task, run.lease) == (task, lease) for run in hand):
        return state
    return seat(state, number, hand=tuple(sorted((*hand, Run(task, lease, attempt)))))


def replaced(hand: tuple[Run, ...], old: Run, new: Run) -> tuple[Run, ...]:
    """Return a hand with another run in the place of one."""
    return tuple(new if run == old else run for run in hand)


def without(hand: tuple[Run, ...], gone: Run) -> tuple[Run, ...]:
    """Return a hand without a run."""
    return tuple(run for run in hand if run != gone)


def is_beat(message: object, session: int) -> bool:
    """Return whether a message is a beat of this session."""
    return isinstance(message, Beat) and message.session == session
