"""The queue with a front against a model of it, whatever agents, refillers and vandals do.

Real statements, a real refiller, real scripts on a real server; who writes into Redis may do so at
any moment. `--hypothesis-profile=soak` goes on for much longer.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from taskq import Seed
from taskq.db.connections import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.postgres import silence, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.property.exploring import explore
from tests.property.front_model import DELAYED, WORKING, Fence, Task
from tests.property.front_scene import KEEPER, LONG_S, POOL_S, FrontScene
from tests.property.queue_agents import in_turn
from tests.property.queue_scene import pick

pytestmark = pytest.mark.thorough

INDEX = st.integers(0, 10_000)
SIDE = st.integers(0, 1)
WANTS = st.integers(1, 3)
RARELY = [
    *("cancel", "come", "crash_gateway", "crash_refiller", "depose", "give_back", "leave"),
    *("let_time_pass", "look", "name", "pause_or_resume", "promote"),
]
SUBTLY = ["bring_back", "forge", "move", "repeat", "restore", "save", "shuffle"]
BRUTALLY = ["drop", "flush", "hang_up", "set_epoch", "spoil", "want"]


class FrontMachine(FrontScene):
    """Does each step to the queue and to the model; what is compared is up to the scene.

    There are no preconditions: what a list holds may depend on how much time has passed, and
    hypothesis wants to draw the same again. A step that makes no sense does nothing.
    """

    # Agents

    @initialize()
    def begin(self) -> None:
        """Begin with tasks, an agent, and a front that is stocked."""
        for side in (0, 0, 0, 1, 1):
            self.seed(side, 4, [0, 1, 0, 0])
        self.come(0)
        self.depose(0)
        self.refill(0, 1, hold=False)
        for side in range(len(self.ids)):
            self.look(side)
            self.claim_ahead(which=0, side=side, want=1, gateway=side)
        for _ in self.ids:
            self.refill(0, 3, hold=False)

    def come(self, _: int) -> None:
        """Open a session, on a connection of its own."""
        if len(self.model.live) == 3:
            return
        agent = ScriptedAgent(self.database, self.top, lease_s=LONG_S)
        self.agents.append(agent)
        self.model.live.add(agent.session)

    @rule(
        which=INDEX,
        side=SIDE,
        want=WANTS,
        gateway=SIDE,
        late=st.sampled_from([False] * 7 + [True]),
        lost=st.sampled_from([False] * 7 + [True]),
        refilled=st.booleans(),
    )
    def claim_ahead(
        self,
        *,
        which: int,
        side: int,
        want: int,
        gateway: int,
        late: bool = False,
        lost: bool = False,
        refilled: bool = False,
    ) -> None:
        """Claim from the front, perhaps when its entries are too old; answers may get lost.

        refilled: claim again when there was nothing and the refillers have looked.
        """
        agent = pick(self.agents, which)
        at = self.gateways[gateway]
        at.link.losing = lost
        lease = agent.draw_lease()
        late_s = at.state.pool_s / 2 + 1 if late else 0.0
        claim = at.claim(agent.session, lease, want, self.ids[side], late_s=late_s)
        fences = self.take(self.stage.play(claim), self.ids[side], agent)
        at.link.losing = False
        assert len(fences) <= want
        if fences:
            assert not late
            self.popped.append((gateway, agent, lease, fences))
        elif refilled:
            for refiller in range(len(self.refillers)):
                self.refill(refiller, want, hold=False)
            self.claim_ahead(which=which, side=side, want=want, gateway=gateway)

    @rule(which=INDEX, want=WANTS)
    def claim_ahead_again(self, which: int, want: int) -> None:
        """Repeat a claim: its answer got lost on the way to the agent, or comes twice."""
        if not self.popped:
            return
        gateway, agent, lease, before = pick(self.popped, which)
        task = self.model.tasks[before[0][0]]
        claim = self.gateways[gateway].claim(agent.session, lease, want, task.campaign)
        self.take(self.stage.play(claim), task.campaign, agent)

    @rule(which=INDEX, side=SIDE, want=WANTS)
    def claim(self, which: int, side: int, want: int) -> None:
        """Claim in PostgreSQL."""
        agent = self.turned(pick(self.agents, which), side)
        lease = agent.draw_lease()
        agent.forget_position()
        answer = agent.exchange(want=want, lease=lease)
        got = [task.task for task in agent.claimed(answer)]
        if agent.session not in self.model.live:
            assert (answer["refused"], got) == ([agent.session], [])
            return
        free = self.model.waiting_for(self.ids[side], agent.session)
        expected = self.model.apart(in_turn(free))[:want]
        assert got == sorted(task.task for task in expected)
        for task in expected:
            self.model.claim(task, agent.session, lease)
            self.note([(task.task, lease)], agent)

    @rule(
        who=st.sampled_from(["who has it"] * 4 + ["another", "an outsider"]),
        which=INDEX,
        words=st.lists(
            st.tuples(INDEX, st.sampled_from([DONE, DONE, FAILED, RELEASED]), st.booleans()),
            min_size=1,
            max_size=4,
            unique_by=lambda word: word[0],
        ),
    )
    def report(self, who: str, which: int, words: list[tuple[int, str, bool]]) -> None:
        """Report about attempts, in time, late or again, one's own or not."""
        if not self.fences:
            return
        first = pick(self.fences, words[0][0])
        agents = {
            "who has it": self.holders[first],
            "another": pick(self.agents, which),
            "an outsider": self.outsider,
        }
        campaign = self.model.tasks[first[0]].campaign
        agent = self.turned(agents[who], self.ids.index(campaign))
        said: dict[Fence, tuple[str, bool]] = {}
        for index, outcome, flag in words:
            fence = pick(self.fences, index)
            if self.model.tasks[fence[0]].campaign == campaign:
                said[fence] = outcome, flag
        answer = agent.exchange(
            [
                {
                    "task": task,
                    "lease": lease,
                    "outcome": outcome,
                    "retry": flag,
                    "started": flag,
                    "session": agent.session,
                }
                for (task, lease), (outcome, flag) in said.items()
            ]
        )
        assert answer["acks"] == [
            self.model.report(agent.session, fence, outcome, retry=flag, started=flag)
            for fence, (outcome, flag) in said.items()
        ]

    @rule(
        which=INDEX,
        named=st.lists(INDEX, max_size=4),
        all_held=st.booleans(),
        age=st.integers(0, 2),
        much_later=st.sampled_from([False] * 5 + [True]),
    )
    def beat(
        self, which: int, named: list[int], *, all_held: bool, age: int, much_later: bool
    ) -> None:
        """Name some attempts, own or not, in a beat that may be older than the last claims.

        much_later: when all that was ever handed out must have been named by its agent.
        """
        live = [agent for agent in self.agents if agent.session in self.model.live]
        if not live:
            return
        agent = pick(live, which)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        if all_held:
            fences.update(fence for fence, holder in self.holders.items() if holder is agent)
        leases = [lease for _, owner, lease, _ in self.popped if owner is agent]
        drawn = leases[-1 - age] if len(leases) > age else agent.draw_lease()
        aged = "update taskq.task set claimed_at = now() - %s where campaign_id = any (%s)"
        self.postgres.execute(aged, [timedelta(days=much_later), self.ids])
        stop = self.model.beat(agent.session, fences, drawn, much_later=much_later)
        held = [
            Claimed(self.model.tasks[task].campaign, task, lease, 0, "", {})
            for task, lease in fences
        ]
        assert agent.heartbeat(held, drawn=drawn) == {task for task, _ in stop}
        # What goes on began after the attempt before it had ended.
        self.postgres.execute(aged, [timedelta(0), self.ids])

    def leave(self, which: int) -> None:
        """End a session, perhaps again."""
        agent = pick(self.agents, which)
        assert agent.leave() == self.model.leave(agent.session)

    # Refillers and gateways

    @rule(which=SIDE, most=st.integers(1, 4), hold=st.booleans())
    def refill(self, which: int, most: int, *, hold: bool) -> None:
        """Let a refiller take a turn, perhaps not beyond the point where it has leased tasks."""
        refiller = self.refillers[which]
        if not refiller.at_gate:
            self.play(refiller, refiller.step(most, hold=hold))

    @rule(which=SIDE, lost=st.booleans())
    def push(self, which: int, *, lost: bool) -> None:
        """Let a refiller push what it has leased, however long ago; the answer may get lost."""
        refiller = self.refillers[which]
        if refiller.at_gate:
            refiller.link.losing = lost
            self.play(refiller, refiller.go_on())
            refiller.link.losing = False

    def crash_refiller(self, which: int) -> None:
        """Let a refiller be gone, with all that it has leased and not pushed."""
        self.stage.play(self.refillers[which % 2].crash())
        self.refillers[which % 2] = self.new_refiller()

    def depose(self, _: int) -> None:
        """Let the term run out of anyone who is the refiller."""
        self.postgres.execute("update taskq.front_refiller set until = '-infinity'")

    def let_time_pass(self, _: int) -> None:
        """Let entries become old in the lists, from which nobody pops."""
        self.stage.ahead_s += 40

    def look(self, which: int) -> None:
        """Let a gateway learn which epoch it is."""
        self.gateways[which % 2].look()

    def give_back(self, which: int) -> None:
        """Let a gateway give back what it has in hand."""
        tasks = self.gateways[which % 2].in_hand()
        fences = [(task.task, task.lease) for task in tasks]
        returned = self.database.value(
            "return_ahead",
            campaigns=[task.campaign for task in tasks],
            tasks=[task.task for task in tasks],
            leases=[task.lease for task in tasks],
            lost=False,
        )
        assert returned == self.model.give_back(fences)

    def name(self, which: int) -> None:
        """Let a gateway tell who has got what it handed out."""
        fences = [fence for fence in self.fences if self.holders[fence] is pick(self.agents, which)]
        agent = pick(self.agents, which)
        named = self.database.value(
            "name_ahead",
            sessions=[agent.session] * len(fences),
            campaigns=[self.model.tasks[task].campaign for task, _ in fences],
            tasks=[task for task, _ in fences],
            leases=[lease for _, lease in fences],
        )
        assert named == self.model.name(agent.session, fences)

    def crash_gateway(self, which: int) -> None:
        """Let a gateway forget what it has in hand."""
        self.gateways[which % 2].crash()

    # Operators, keepers, and what happens to anybody

    @rule(side=SIDE, count=st.integers(1, 4), priorities=st.lists(SIDE, min_size=4, max_size=4))
    def seed(self, side: int, count: int, priorities: list[int]) -> None:
        """Add tasks."""
        campaign = self.campaigns[side]
        keys = [f"k{number}" for number in range(self.seeded, self.seeded + count)]
        campaign.seed(
            Seed({"key": key}, key, priority)
            for key, priority in zip(keys, priorities, strict=False)
        )
        self.seeded += count
        for view in campaign.tasks():
            if view.key in keys:
                self.model.tasks[view.task_id] = Task(
                    campaign.campaign_id, view.task_id, view.key, view.priority
                )

    def pause_or_resume(self, which: int) -> None:
        """Pause a campaign, or let it go on."""
        campaign, closed = self.campaigns[which % 2], self.model.closed
        if campaign.campaign_id in closed:
            campaign.resume()
            closed.remove(campaign.campaign_id)
        else:
            campaign.pause()
            closed.add(campaign.campaign_id)

    def cancel(self, which: int) -> None:
        """Cancel a task, wherever it is."""
        task = pick(list(self.model.tasks.values()), which)
        campaign = self.campaigns[self.ids.index(task.campaign)]
        assert campaign.cancel([task.key]) == self.model.cancel(task)

    @rule(which=INDEX)
    def withdraw(self, which: int) -> None:
        """Withdraw the result of a task, perhaps a new one; it may be leased ahead again."""
        tasks = self.model.tasks
        held = [
            number
            for number, (task, lease) in enumerate(self.fences)
            if (tasks[task].status, tasks[task].lease) == (WORKING, lease)
        ]
        if held:
            self.report("who has it", which, [(pick(held, which), DONE, True)])
        done = [task for task in tasks.values() if task.status == DONE]
        task = pick(done or list(tasks.values()), which)
        campaign = self.campaigns[self.ids.index(task.campaign)]
        assert campaign.retry(status=DONE, keys=[task.key]) == self.model.withdraw(task)

    @rule(which=st.none() | INDEX, deadline=st.booleans())
    def keep(self, which: int | None, *, deadline: bool) -> None:
        """Do a round of upkeep; a session was silent for too long, the pool's deadline passes."""
        lost = 0
        if which is not None and self.model.live:
            silent = pick(sorted(self.model.live), which)
            silence(self.postgres, silent)
            lost = self.model.expire(silent)
        self.postgres.execute("select pg_sleep(0.002)")  # a lease tells its time in milliseconds
        with_deadline = "update taskq.front set pool_s = %s"
        if deadline:
            self.postgres.execute(with_deadline, [0.0])
            self.model.pass_deadline()
        (kept,) = self.database.rows("keep", holder=KEEPER, term_s=LONG_S)
        self.postgres.execute(with_deadline, [POOL_S])
        assert (kept["acting"], kept["lost"]) == (True, lost)

    def promote(self, _: int) -> None:
        """Let delayed tasks come due."""
        self.postgres.execute(
            "update taskq.task set due_at = clock_timestamp() where status = 'delayed'"
        )
        delayed = sum(task.status == DELAYED for task in self.model.tasks.values())
        self.model.promote()
        assert value(self.postgres, "select taskq.promote_delayed()") == delayed

    @rule(how=st.sampled_from(RARELY), which=INDEX)
    def happen(self, how: str, which: int) -> None:
        """Let happen what happens now and then."""
        act: Callable[[int], None] = getattr(self, how)
        act(which)

    @rule(how=st.sampled_from(SUBTLY * 2 + BRUTALLY), which=INDEX)
    def spoil(self, how: str, which: int) -> None:
        """Do to Redis what somebody can who may write there."""
        act: Callable[[int], None] = getattr(self.vandal, how)
        act(which)


def test_queue_with_a_front_does_what_its_model_says(
    database: Database, redis_server: RedisServer
) -> None:
    """Whatever agents, refillers, keepers and vandals do, in whatever order."""
    with psycopg.connect(database.dsn, autocommit=True) as postgres:  # so that it can be over
        postgres.execute("alter table taskq.front drop constraint front_pool_range")
    FrontMachine.database, FrontMachine.server = database, redis_server
    explore(FrontMachine, 40, 40)
