"""Steps of agents in transactions that may stay open: come, claim, report, beat, leave."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from hypothesis import strategies as st
from hypothesis.stateful import rule

from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.helpers.scripted_agent import ScriptedAgent
from tests.property.concurrent_scene import (
    COMMIT,
    CONNECTION,
    HOLD,
    INDEX,
    LONG_S,
    ConcurrentScene,
    fetch,
    fetch_all,
)
from tests.property.pooled_model import Fence
from tests.property.queue_scene import pick
from tests.property.tracked_connections import Lock

_EXCHANGE = """
    select acks, tasks, refused
      from taskq.exchange(%(campaign)s, %(reports)s, %(sessions)s, %(leases)s::uuid[], %(wants)s)
"""
_REPORT_ONE = """
    select acks, tasks, refused
      from taskq.exchange_one(%(campaign)s, %(reports)s, %(session)s, null)
"""


@dataclass(frozen=True)
class Word:
    """What a report says of an attempt. retry: of a failure. started: of what is handed back."""

    outcome: str
    retry: bool = True
    started: bool = True


class ConcurrentAgents(ConcurrentScene):
    """Agents of one campaign."""

    def come(self, *_: object) -> None:
        """Open a session."""
        if len(self.connections.model.live) == 3:
            return
        agent = ScriptedAgent(self.queue.database, self.campaign.path, lease_s=LONG_S, host="node1")
        self.agents.append(agent)
        self.connections.model.open(agent.session, "node1")

    @rule(
        number=CONNECTION, which=INDEX, want=st.integers(1, 3), again=HOLD, hold=HOLD, commit=COMMIT
    )
    def claim(
        self, number: int, which: int, want: int, again: bool, hold: bool, commit: bool
    ) -> None:
        """Claim, or repeat a claim, be it under way or answered long ago."""
        connection = self.connections.begin(number)
        agent, lease = pick(self.agents, which), ""
        if again and self.claims:
            agent, lease = pick(self.claims, which)
        lease = lease or agent.draw_lease()
        self.claims.append((agent, lease))
        words = {
            "campaign": agent.campaign,
            "reports": None,
            "sessions": [agent.session],
            "leases": [lease],
            "wants": [want],
        }
        answer = self.do(connection, fetch(_EXCHANGE, words), {("lease", lease)}, commit=commit)
        got = [value.task for value in agent.claimed(answer)]
        model = self.connections.free()
        if agent.session not in model.live:
            assert (answer["refused"], got) == ([agent.session], [])
        elif before := self.connections.model.held(agent.session, lease):
            assert got == sorted(task.task for task in before)
        else:
            waiting = {task.task for task in model.waiting()}
            claimable = {task.task for task in model.claimable(agent.session, lease)}
            again = any(task.avoids or task.losses for task in model.waiting())
            # Another transaction may be giving it, or may just have given back, one that was lost.
            lost = {task.task for task in model.waiting() if task.losses}
            assert set(got) <= claimable | lost
            assert ((claimable == waiting and min(1, len(waiting))) <= len(got)) or lost
            assert len(got) <= want
            for task in got:
                model.claim(model.tasks[task], agent.session, lease)
            fences = [(task, lease) for task in got]
            connection.at_end.append(lambda _: self.fences.extend(fences))
            # It has locked what it then did not take.
            hold = hold and claimable == waiting and not again
        self.done(connection, model, hold=hold)

    @rule(
        number=CONNECTION,
        who=INDEX,
        words=st.lists(
            st.tuples(INDEX, st.sampled_from([DONE, FAILED, RELEASED]), st.booleans()),
            min_size=1,
            max_size=3,
        ),
        hold=HOLD,
        commit=COMMIT,
    )
    def report(
        self, number: int, who: int, words: list[tuple[int, str, bool]], hold: bool, commit: bool
    ) -> None:
        """Report about attempts, in time, late or again."""
        if not self.fences:
            return
        said = {
            pick(self.fences, index): Word(outcome, flag, flag) for index, outcome, flag in words
        }
        self._report(number, who, said, hold=hold, commit=commit)

    @rule(
        number=CONNECTION,
        who=INDEX,
        late=INDEX,
        others=st.lists(INDEX, max_size=2),
        hold=HOLD,
        commit=COMMIT,
    )
    def finish_late(
        self, number: int, who: int, late: int, others: list[int], hold: bool, commit: bool
    ) -> None:
        """Report success of an attempt that was given up, or is just being so, next to others."""
        given_up = self.connections.coming().lost()
        if not given_up:
            return
        fences = [*(pick(self.fences, index) for index in others), pick(given_up, late)]
        self._report(number, who, dict.fromkeys(fences, Word(DONE)), hold=hold, commit=commit)

    def _report(
        self, number: int, who: int, said: dict[Fence, Word], *, hold: bool, commit: bool
    ) -> None:
        connection = self.connections.begin(number)
        by = pick(self.agents, who).session
        reports = [
            {"task": task, "lease": lease, "by": by, **asdict(word)}
            for (task, lease), word in said.items()
        ]
        values = {
            "campaign": self.campaign.campaign_id,
            "reports": json.dumps(reports),
            "sessions": None,
            "leases": None,
            "wants": None,
        }
        query = fetch(_EXCHANGE, values)
        if len(reports) == 1:
            query = fetch(_REPORT_ONE, values | {"session": by})
        answer = self.do(connection, query, self._reported(said), commit=commit)
        model = self.connections.copy()
        verdicts: dict[Fence, str] = {}
        for task, lease in sorted(
            said, key=lambda pair: model.is_late(model.tasks[pair[0]], pair[1])
        ):
            verdicts[task, lease] = model.report(
                model.tasks[task], lease, error_class=None, by=by, **asdict(said[task, lease])
            )
        assert answer["acks"] == [verdicts[fence] for fence in said]
        self.done(connection, model, hold=hold)

    def _reported(self, said: Iterable[Fence]) -> set[Lock]:
        """Return what a report locks: the tasks that are under these leases.

        All, whatever their leases, as soon as one of these was given up and may be salvaged. A task
        that is done has nothing to lock.
        """
        model = self.connections.model
        all_of_them = model.salvages and not set(model.lost()).isdisjoint(said)
        return {
            ("task", task)
            for task, lease in said
            if model.tasks[task].status != DONE
            and (all_of_them or not model.is_late(model.tasks[task], lease))
        }

    @rule(
        number=CONNECTION,
        which=INDEX,
        named=st.lists(INDEX, max_size=3),
        popped=st.lists(INDEX, max_size=2),
        much_later=HOLD,
        hold=HOLD,
        commit=COMMIT,
    )
    def beat(
        self,
        number: int,
        which: int,
        named: list[int],
        popped: list[int],
        much_later: bool,
        hold: bool,
        commit: bool,
    ) -> None:
        """Name some attempts, own or not, and some that are leased ahead.

        much_later: when all that was ever handed out must have been named by its agent.
        """
        connection = self.connections.begin(number)
        agent = pick(self.agents, which)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        fences.update(self.popped(popped))
        drawn = agent.drawn or agent.draw_lease()
        held = [
            {"campaign": agent.campaign, "task": task, "lease": lease} for task, lease in fences
        ]
        beat = {"session": agent.session, "held": held, "pending": [], "drawn": drawn}
        needs: set[Lock] = set()
        if agent.session in self.connections.model.live:
            needs.add(("session", agent.session))
        act = fetch_all("select * from taskq.beat(%(beats)s)", {"beats": json.dumps([beat])})
        with self.at_the_deadline(is_over=much_later):
            rows = self.do(connection, act, needs, commit=commit)
        model = self.connections.free()
        if agent.session in model.live:
            # What somebody else has locked stays as it is, and is the session's until that commits.
            void = self.connections.copy().beat(agent.session, fences, [], drawn)
            assert {task for row in rows for _, task, _ in row["stop"] or ()} == void
            free = [fence for fence in fences if fence[0] in model.tasks]
            model.beat(agent.session, free, [], drawn, much_later=much_later)
        else:
            assert [row["ended"] for row in rows] == [True]
        self.done(connection, model, hold=hold)

    def leave(self, number: int, which: int, hold: bool, commit: bool) -> None:
        """End a session, perhaps again."""
        connection = self.connections.begin(number)
        session = pick(self.agents, which).session
        needs: set[Lock] = (
            {("session", session)} if session in self.connections.model.live else set()
        )
        act = fetch("select taskq.end_session(%(session)s) as n", {"session": session})
        row = self.do(connection, act, needs, commit=commit)
        model = self.connections.free()
        if session in model.live:
            connection.gone[session] = False
        assert row["n"] == model.leave(session)
        self.done(connection, model, hold=hold)
