"""Steps of agents in the model of the queue: claim, report, beat, fall silent, leave."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from taskq_agent.protocol import CONTINUED, DONE, FAILED, OUT_OF_TIME, OUTCOMES, RELEASED
from tests.helpers.postgres import expire, silence
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.property.queue_scene import (
    ERROR_CLASSES,
    HOSTS,
    INDEX,
    SITES,
    WANTS,
    Fence,
    QueueScene,
    pick,
)
from tests.property.queue_tasks import Task

_SAVE = "select * from taskq.save_checkpoint(null, %s, %s, %s, %s, 1)"
_TELL = "select taskq.note_updates(%s)"


def in_turn(tasks: list[Task]) -> list[Task]:
    """Put tasks into the order of a claim.

    Those that failed or were lost before wait apart: a claim asks first for those that come before
    all others, then for the others, then for the rest.
    """
    fresh = [task for task in tasks if not (task.avoids or task.losses)]
    head = tasks.index(fresh[0]) if fresh else len(tasks)
    return [*tasks[:head], *fresh, *(task for task in tasks[head:] if task not in fresh)]


class QueueAgents(QueueScene):
    """Each step is done to the queue and to the model, whose answers must be the same."""

    @precondition(lambda self: len(self.model.live) < 3)
    @rule(host=HOSTS, site=SITES)
    def come(self, host: str, site: str) -> None:
        """Open a session, on a connection of its own, unless the host or site is banned."""
        if self.model.kept_away(host, site):
            self.try_in_vain(host, site)
            return
        agent = ScriptedAgent(
            self.queue.database,
            self.campaign.path,
            lease_s=86_400,  # silent for longer than that is only who must be
            host=host,
            site=site,
            slots=self.slots,
        )
        self.agents.append(agent)
        self.model.open(agent.session, host, site, self.slots)

    @rule(which=INDEX, want=WANTS, from_the_start=st.booleans())
    def claim(self, which: int, want: int, from_the_start: bool) -> None:
        """Claim under a new lease."""
        agent = self._agent(which)
        self._claim(agent, agent.draw_lease(), want, from_the_start=from_the_start)

    def _agent(self, which: int) -> ScriptedAgent:
        """Return an agent, now and then one whose session has ended."""
        live = [agent for agent in self.agents if agent.session in self.model.live]
        return pick(live if live and which % 8 else self.agents, which)

    @precondition(lambda self: self.claims)
    @rule(which=INDEX, want=WANTS)
    def claim_again(self, which: int, want: int) -> None:
        """Repeat a claim, be its answer lost or only late."""
        agent, lease = pick(self.claims, which)
        counted = (agent.session, lease) in self.model.limit.claimed
        if counted and not (self.model.limit.named or self.model.held(agent.session, lease)):
            return  # no agent does that; it may count until another claim or the keeper looks
        self._claim(agent, lease, want, from_the_start=False)

    def _claim(self, agent: ScriptedAgent, lease: str, want: int, *, from_the_start: bool) -> None:
        if from_the_start:
            agent.forget_position()
        answer = agent.exchange(want=want, lease=lease)
        self._check_claim(agent, lease, want, answer, exact=from_the_start)

    def _check_claim(
        self, agent: ScriptedAgent, lease: str, want: int, answer: dict[str, Any], *, exact: bool
    ) -> None:
        self.claims.append((agent, lease))
        got = [task.task for task in agent.claimed(answer)]
        if agent.session not in self.model.live:
            assert (answer["refused"], got) == ([agent.session], [])
            return
        assert answer["refused"] is None
        before = self.model.held(agent.session, lease)
        if before:
            assert got == sorted(task.task for task in before)
        elif self.model.states != {"open"}:
            assert got == []
        else:
            most = self.model.wanted(agent.session, want)
            if most == 0 and self.model.waiting():
                assert agent.session in answer["avoided"]
            free = self.model.waiting_for(agent.session)
            waiting = [task.task for task in free]
            claimable = [task.task for task in self.model.claimable(agent.session, lease)]
            if exact:
                first = self.model.apart(agent.session, in_turn(free))[:most]
                assert got == sorted(task.task for task in first)
            assert set(got) <= set(claimable)
            assert self.model.has_room(agent.session, [self.model.tasks[number] for number in got])
            assert (claimable == waiting and min(1, most, len(waiting))) <= len(got) <= most
            for number in got:
                self.model.claim(self.model.tasks[number], agent.session, lease)
                self.fences.append((number, lease))
        for task in agent.claimed(answer):
            assert task.attempt == self.model.tasks[task.task].attempt
            assert task.key == self.model.tasks[task.task].key

    @precondition(lambda self: self.fences)
    @rule(
        which=INDEX,
        words=st.lists(
            st.tuples(INDEX, st.sampled_from([*OUTCOMES, OUT_OF_TIME, CONTINUED]), st.booleans()),
            min_size=1,
            max_size=4,
            unique_by=lambda word: word[0],
        ),
        error_class=ERROR_CLASSES,
        want=st.integers(0, 2),
    )
    def report(
        self, which: int, words: list[tuple[int, str, bool]], error_class: str, want: int
    ) -> None:
        """Report about attempts, in time, late or again; claim in the same breath."""
        classes = {FAILED: error_class, DONE: None, RELEASED: None}
        said = {
            pick(self.fences, index): {
                "outcome": outcome if outcome in OUTCOMES else RELEASED,
                "error_class": classes.get(outcome, outcome),
                "retry": flag,
                "started": flag,
            }
            for index, outcome, flag in words
        }
        self._report(pick(self.agents, which), said, want)

    @precondition(lambda self: self.fences)
    @rule(which=INDEX, content=st.integers(1, 2))
    def save_checkpoint(self, which: int, content: int) -> None:
        """Save a checkpoint of an attempt, which may have ended long ago."""
        number, lease = pick(self.fences, which)
        task = self.model.tasks[number]
        before = task.checkpoint
        values = [self.campaign.campaign_id, number, lease, f"{content}" * 64]
        row = self.postgres.execute(_SAVE, values).fetchone()
        assert row is not None
        assert row["saved"] == self.model.save(task, lease, content)
        replaced = before is not None and task.checkpoint != before
        assert row["replaced"] == (f"{before[0]}" * 64 if replaced and before else None)

    @precondition(lambda self: self.fences)
    @rule(which=INDEX, fence=INDEX, part=st.sampled_from([0.25, 0.5, 0.75]))
    def tell(self, which: int, fence: int, part: float) -> None:
        """Say how far an attempt is, be it the agent's own or not, at work or not."""
        agent = pick(self.agents, which)
        number, lease = pick(self.fences, fence)
        fenced = {"campaign": self.campaign.campaign_id, "task": number, "lease": lease}
        update = {"session": agent.session, **fenced, "fraction": part}
        self.postgres.execute(_TELL, [json.dumps([update])])
        self.model.tell(agent.session, self.model.tasks[number], lease, part)

    @precondition(lambda self: self.model.lost())
    @rule(which=INDEX, late=INDEX, others=st.lists(INDEX, max_size=2), want=st.integers(0, 2))
    def finish_late(self, which: int, late: int, others: list[int], want: int) -> None:
        """Report success of an attempt that was given up, next to others."""
        fences = [pick(self.model.lost(), late), *(pick(self.fences, index) for index in others)]
        word = {"outcome": DONE, "error_class": None, "retry": True, "started": True}
        self._report(pick(self.agents, which), dict.fromkeys(fences, word), want)

    def _report(self, agent: ScriptedAgent, said: dict[Fence, dict[str, Any]], want: int) -> None:
        reports = [{"task": number, "lease": held, **word} for (number, held), word in said.items()]
        lease = agent.draw_lease()
        answer = agent.exchange(reports, want, lease=lease)
        verdicts: dict[Fence, str] = {}
        tasks = self.model.tasks
        for number, held in sorted(
            said, key=lambda pair: self.model.is_late(tasks[pair[0]], pair[1])
        ):
            verdicts[number, held] = self.model.report(tasks[number], held, **said[number, held])
        assert answer["acks"] == [verdicts[fence] for fence in said]
        if want:
            self._check_claim(agent, lease, want, answer, exact=False)

    @precondition(lambda self: self.model.live)
    @rule(
        which=INDEX,
        named=st.lists(INDEX, max_size=5),
        all_named=st.booleans(),
        pending=st.lists(INDEX, max_size=1),
        age=st.integers(0, 2),
    )
    def beat(
        self, which: int, named: list[int], all_named: bool, pending: list[int], age: int
    ) -> None:
        """Name some attempts, own or not, in a beat that may be older than the last claims."""
        agent = pick([agent for agent in self.agents if agent.session in self.model.live], which)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        if all_named:
            fences |= {(task.task, task.lease) for task in self.model.held(agent.session)}
        leases = [lease for hired, lease in self.claims if hired is agent]
        drawn = sorted(leases)[-1 - age] if len(leases) > age else agent.draw_lease()
        waited_for = [pick(leases, index) for index in pending] if leases else []
        stop = self.model.beat(agent.session, fences, waited_for, drawn)
        campaign = self.campaign.campaign_id
        held = [Claimed(campaign, number, lease, 0, "", {}) for number, lease in fences]
        assert agent.heartbeat(held, pending=waited_for, drawn=drawn) == stop

    @precondition(lambda self: self.model.live)
    @rule(which=INDEX)
    def fall_silent(self, which: int) -> None:
        """Be gone for longer than a lease, and let the keeper look: rather who has tasks."""
        live = sorted(self.model.live)
        self._fall_silent(
            pick([number for number in live if self.model.held(number)] or live, which)
        )

    @precondition(lambda self: len(self.agents) < 12)
    @rule(hosts=st.lists(HOSTS, min_size=1, max_size=3), site=SITES)
    def lose(self, hosts: list[str], site: str) -> None:
        """Lose one agent after the other, each with the first task that waits."""
        for host in [host for host in hosts if not self.model.kept_away(host, site)]:
            self.come(host, site)
            agent = self.agents[-1]
            self._claim(agent, agent.draw_lease(), 1, from_the_start=True)
            self._fall_silent(agent.session)

    def _fall_silent(self, session: int) -> None:
        silence(self.postgres, session)
        assert expire(self.postgres) == self.model.expire(session)

    @precondition(lambda self: len(self.model.live) != 1)
    @rule(which=INDEX)
    def leave(self, which: int) -> None:
        """End a session, perhaps again."""
        agent = pick(self.agents, which)
        assert agent.leave() == self.model.leave(agent.session)
