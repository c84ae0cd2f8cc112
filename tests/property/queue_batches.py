"""Steps of agents that start many tasks together, in the model of the queue."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from taskq import Handler
from taskq.model.campaign_spec import LATE_RESULTS
from tests.helpers.postgres import expire, silence
from tests.helpers.scripted_agent import Claimed, ScriptedAgent
from tests.property.batched_model import NODE_FAILED, OUT_OF_MEMORY, BatchedModel, NamedClaim
from tests.property.queue_agents import QueueAgents
from tests.property.queue_scene import ERROR_CLASSES, HOSTS, INDEX, POLICY, SITES, Fence, pick

_END_JOB = """
    update taskq.session set ended_at = clock_timestamp(), expired = true, end_class = %s
     where session_id = %s
"""
ENDS = st.sampled_from([None, None, NODE_FAILED, OUT_OF_MEMORY])
BEGUN = st.none() | st.lists(INDEX, max_size=4)


class QueueBatches(QueueAgents):
    """Each step is done to the queue and to the model, whose answers must be the same."""

    model: BatchedModel
    model_of_queue = BatchedModel
    slots: ClassVar[int] = 2

    # Campaigns with batches keep no checkpoints; `change_batch` takes the place of the other.
    save_checkpoint: ClassVar[Any] = None
    change: ClassVar[Any] = None

    @rule(
        late=st.sampled_from(LATE_RESULTS),
        never=st.sets(ERROR_CLASSES, max_size=1),
        nodes=st.integers(1, 3),
        batch=st.sampled_from([None, 1, 2, 4, 16]),
    )
    def change_batch(self, late: str, never: set[str], nodes: int, batch: int | None) -> None:
        """Change how many tasks have one start, and other settings, under agents at work."""
        self.model.salvages, self.model.batch = late == "salvage", batch
        self.model.never_retry, self.model.max_lost_hosts = never, nodes
        self.change_to(
            handler=Handler("command", argv=("dock",), batch=batch),
            retry=replace(POLICY, never_retry=tuple(never), max_lost_hosts=nodes),
            late_results=late,
            checkpoint_bytes=None,
        )

    @precondition(lambda self: self.model.live and self.claims)
    @rule(
        which=INDEX,
        claims=st.lists(st.tuples(INDEX, st.integers(-1, 2), BEGUN), max_size=3),
        own=st.booleans(),
        named=st.lists(INDEX, max_size=2),
    )
    def beat_with_claims(
        self,
        which: int,
        claims: list[tuple[int, int, list[int] | None]],
        own: bool,
        named: list[int],
    ) -> None:
        """Name claims as a whole, the agent's own or not, with more or fewer tasks than it has."""
        agent = pick([agent for agent in self.agents if agent.session in self.model.live], which)
        leases = [lease for hired, lease in self.claims if hired is agent or not own]
        found = {}
        for index, more, begun in claims if leases else ():
            lease = pick(leases, index)
            held = [task.task for task in self.model.held(agent.session, lease)]
            found[lease] = self._named(lease, max(0, len(held) + more), held, begun)
        fences = {pick(self.fences, index) for index in named} if self.fences else set()
        self._beat_with(agent, found.values(), fences)

    def _named(
        self, lease: str, tasks: int, held: list[int], begun: list[int] | None
    ) -> NamedClaim:
        """Return a claim of which some tasks have begun: its own, or any if it has none."""
        some = held or list(self.model.tasks)
        marks = None if begun is None else frozenset(pick(some, index) for index in begun)
        return NamedClaim(lease, tasks, marks)

    def _beat_with(
        self, agent: ScriptedAgent, claims: Collection[NamedClaim], fences: set[Fence]
    ) -> None:
        campaign, drawn = self.campaign.campaign_id, agent.drawn or agent.draw_lease()
        stop = self.model.beat(agent.session, fences, [], drawn, claims)
        words = [
            {"campaign": campaign, "lease": claim.lease, "tasks": claim.tasks}
            | ({} if claim.begun is None else {"begun": sorted(claim.begun)})
            for claim in claims
        ]
        held = [Claimed(campaign, number, lease, 0, "", {}) for number, lease in fences]
        assert agent.heartbeat(held, drawn=drawn, claims=words) == stop
        kept = {lease: sorted(tasks) for lease, tasks in agent.kept.items()}
        assert kept == self.model.left_of(agent.session)

    @precondition(lambda self: len(self.agents) < 16)
    @rule(
        host=HOSTS,
        site=SITES,
        want=st.integers(2, 6),
        begun=BEGUN,
        again=st.sampled_from(["", "", "claim", "tasks"]),
        end=ENDS,
    )
    def lose_batch(
        self,
        host: str,
        site: str,
        want: int,
        begun: list[int] | None,
        again: str,
        end: str | None,
    ) -> None:
        """Lose an agent with a batch, of which some have begun, or with its job.

        again: what its last heartbeat names, which no longer says what has begun.
        """
        if self.model.kept_away(host, site):
            return
        self.come(host, site)
        agent = self.agents[-1]
        lease = agent.draw_lease()
        self._claim(agent, lease, want, from_the_start=True)
        held = [task.task for task in self.model.held(agent.session, lease)]
        self._beat_with(agent, [self._named(lease, len(held), held, begun)], set())
        if again == "claim":
            self._beat_with(agent, [self._named(lease, len(held), held, None)], set())
        elif again == "tasks":
            self._beat_with(agent, [], {(task, lease) for task in held})
        self._lose(agent.session, end)

    @precondition(lambda self: self.model.live)
    @rule(which=INDEX, end=ENDS)
    def lose_job(self, which: int, end: str | None) -> None:
        """Lose an agent with all that it has, whatever it has said: rather one who has tasks."""
        live = sorted(self.model.live)
        self._lose(pick([number for number in live if self.model.held(number)] or live, which), end)

    def _lose(self, session: int, end: str | None) -> None:
        if end is None:
            silence(self.postgres, session)
        else:
            self.postgres.execute(_END_JOB, [end, session])
        assert expire(self.postgres) == self.model.expire(session, end or "agent-lost")
