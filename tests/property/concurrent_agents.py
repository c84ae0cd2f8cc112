"""What agents do in transactions that may stay open: come, claim, report, beat, leave."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from taskq import Seed
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.agent_double import AgentDouble
from tests.property.concurrent_scene import (
    COMMIT,
    HOLD,
    INDEX,
    LINE,
    LONG_S,
    ConcurrentScene,
    fetch,
    fetch_all,
    pick,
)
from tests.property.open_lines import Lock
from tests.property.queue_model import WORKING, Task

_EXCHANGE = """
    select acks, tasks, refused
      from taskq.exchange(%(campaign)s, %(reports)s, %(sessions)s, %(leases)s::uuid[], %(wants)s)
"""


class ConcurrentAgents(ConcurrentScene):
    """Agents of one campaign."""

    @initialize()
    def begin(self) -> None:
        """Begin with some tasks and two agents."""
        self.campaign.seed(Seed({}, f"k{n}", priority=n % 2) for n in range(5))
        for view in self.campaign.tasks():
            task = Task(view.task_id, view.key, view.priority)
            self.lines.model.tasks[view.task_id] = task
        self.come()
        self.come()

    @precondition(lambda self: len(self.lines.model.live) < 3)
    @rule()
    def come(self) -> None:
        """Open a session."""
        agent = AgentDouble(self.queue.database, self.campaign.path, lease_s=LONG_S, host="node1")
        self.agents.append(agent)
        self.lines.model.open(agent.session, "node1")

    @rule(number=LINE, which=INDEX, want=st.integers(1, 3), again=HOLD, hold=HOLD, commit=COMMIT)
    def claim(
        self, number: int, which: int, want: int, again: bool, hold: bool, commit: bool
    ) -> None:
        """Claim, or repeat a claim, be it under way or answered long ago."""
        line = self.lines.begin(number)
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
        answer = self.do(line, fetch(_EXCHANGE, words), {("lease", lease)}, commit=commit)
        got = [one.task for one in agent.claimed(answer)]
        model = self.lines.free()
        if agent.session not in model.live:
            assert (answer["refused"], got) == ([agent.session], [])
        elif before := self.lines.model.held(agent.session, lease):
            assert got == sorted(task.task for task in before)
        else:
            waiting = {task.task for task in model.waiting()}
            claimable = {task.task for task in model.claimable(lease)}
            assert set(got) <= claimable
            assert (claimable == waiting and min(1, len(waiting))) <= len(got) <= want
            for task in got:
                model.claim(model.tasks[task], agent.session, lease)
            fences = [(task, lease) for task in got]
            line.at_end.append(lambda _: self.fences.extend(fences))
            # It has locked what it then did not take.
            hold = hold and claimable == waiting
        self.done(line, model, hold=hold)

    @precondition(lambda self: self.fences)
    @rule(
        number=LINE,
        words=st.lists(
            st.tuples(INDEX, st.sampled_from([DONE, FAILED, RELEASED]), st.booleans()),
            min_size=1,
            max_size=3,
        ),
        hold=HOLD,
        commit=COMMIT,
    )
    def report(
        self, number: int, words: list[tuple[int, str, bool]], hold: bool, commit: bool
    ) -> None:
        """Report about attempts, in time, late or again."""
        line = self.lines.begin(number)
        said = {
            pick(self.fences, index): {"outcome": outcome, "retry": flag, "started": flag}
            for index, outcome, flag in words
        }
        reports = [{"task": task, "lease": lease, **word} for (task, lease), word in said.items()]
        needs = {
            ("task", task)
            for task, lease in said
            if (self.lines.model.tasks[task].status, self.lines.model.tasks[task].lease)
            == (WORKING, lease)
        }
        values = {
            "campaign": self.campaign.campaign_id,
            "reports": json.dumps(reports),
            "sessions": None,
            "leases": None,
            "wants": None,
        }
        answer = self.do(line, fetch(_EXCHANGE, values), needs, commit=commit)
        model = self.lines.copy()
        assert answer["acks"] == [
            model.report(model.tasks[task], lease, error_class=None, **word)
            for (task, lease), word in said.items()
        ]
        self.done(line, model, hold=hold)

    @rule(number=LINE, which=INDEX, named=st.lists(INDEX, max_size=4), hold=HOLD, commit=COMMIT)
    def beat(self, number: int, which: int, named: list[int], hold: bool, commit: bool) -> None:
        """Name some attempts, own or not."""
        line = self.lines.begin(number)
        agent = pick(self.agents, which)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        drawn = agent.drawn or agent.draw_lease()
        held = [(agent.campaign, task, lease) for task, lease in fences]
        beat = {"session": agent.session, "held": held, "pending": [], "drawn": drawn}
        needs: set[Lock] = set()
        if agent.session in self.lines.model.live:
            needs.add(("session", agent.session))
        act = fetch_all("select * from taskq.beat(%(beats)s)", {"beats": json.dumps([beat])})
        rows = self.do(line, act, needs, commit=commit)
        model = self.lines.free()
        if agent.session in model.live:
            # What somebody else has locked stays as it is, and is the session's until that commits.
            void = self.lines.copy().beat(agent.session, fences, [], drawn)
            assert {task for row in rows for _, task, _ in row["stop"] or ()} == void
            free = [fence for fence in fences if fence[0] in model.tasks]
            model.beat(agent.session, free, [], drawn)
        else:
            assert [row["ended"] for row in rows] == [True]
        self.done(line, model, hold=hold)

    @rule(number=LINE, which=INDEX, hold=HOLD, commit=COMMIT)
    def leave(self, number: int, which: int, hold: bool, commit: bool) -> None:
        """End a session, perhaps again."""
        line = self.lines.begin(number)
        session = pick(self.agents, which).session
        needs: set[Lock] = {("session", session)} if session in self.lines.model.live else set()
        act = fetch("select taskq.end_session(%(session)s) as n", {"session": session})
        row = self.do(line, act, needs, commit=commit)
        model = self.lines.free()
        if session in model.live:
            line.gone[session] = False
        assert row["n"] == model.leave(session)
        self.done(line, model, hold=hold)
