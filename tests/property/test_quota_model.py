"""Quotas under any order of seeding, claiming, reporting, giving away and changing quotas."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)

from taskq import Campaign, CampaignSpec, Client, Conflict
from taskq.db.connections import Database
from taskq.db.owners import QuotaChange
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of
from tests.helpers.variants import rest_thorough
from tests.property.exploring import explore

CAMPAIGN = st.integers(0, 2)
OWNER = st.integers(0, 1)
COUNT = st.integers(1, 6)


@dataclass
class Member:
    """A campaign as it should be. inputs: sizes by name."""

    campaign: Campaign
    agent: ScriptedAgent
    owner: str
    limit: int | None = None
    waiting: int = 0
    held: list[Claimed] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)


class QuotaMachine(RuleBasedStateMachine):
    """Three campaigns of two owners, whose quotas change."""

    numbers = itertools.count()
    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        self.queue = Client(self.database)
        self.number = next(self.numbers)
        self.owners = [f"o{self.number}-{n}" for n in range(2)]
        self.quotas: dict[str, QuotaChange] = {owner: {} for owner in self.owners}
        self.full = dict.fromkeys(self.owners, False)
        self.keys = itertools.count()
        self.path = f"/q{self.number}"
        self.all = [self._campaign(n) for n in range(3)]

    def _campaign(self, number: int) -> Member:
        campaign = self.queue.create_campaign(f"{self.path}/{number}")
        self.queue.owners.give(campaign.path, self.owners[0])
        agent = ScriptedAgent(self.database, campaign.path)
        return Member(campaign, agent, self.owners[0])

    def teardown(self) -> None:
        """Close the connections."""
        for member in self.all:
            member.agent.close()

    def _of(self, owner: str) -> list[Member]:
        return [member for member in self.all if member.owner == owner]

    def _working(self, owner: str) -> int:
        return sum(len(member.held) for member in self._of(owner))

    def _stored(self, owner: str) -> int:
        return sum(sum(member.inputs.values()) for member in self._of(owner))

    def _most(self, member: Member, want: int) -> int:
        """Return how many tasks a claim gets."""
        room = [want, member.waiting]
        quota = 0 if self.full[member.owner] else self.quotas[member.owner].get("max_running")
        if quota is not None:
            room.append(max(0, quota - self._working(member.owner)))
        if member.limit is not None:
            room.append(max(0, member.limit - len(member.held)))
        return min(room)

    def _judge(self, owner: str) -> None:
        most = self.quotas[owner].get("max_bytes")
        self.full[owner] = most is not None and self._stored(owner) >= most

    @rule(number=CAMPAIGN, count=COUNT)
    def seed(self, number: int, count: int) -> None:
        """Seed a chunk: all of it, or nothing."""
        member = self.all[number]
        most = self.quotas[member.owner].get("max_waiting")
        fits = most is None or sum(it.waiting for it in self._of(member.owner)) + count <= most
        records = [{"n": next(self.keys)} for _ in range(count)]
        try:
            added = member.campaign.seed(records).added
        except Conflict:
            assert not fits
        else:
            assert fits
            assert added == count
            member.waiting += count

    @rule(number=CAMPAIGN, want=COUNT, done=st.integers(0, 3))
    def exchange(self, number: int, want: int, done: int) -> None:
        """Report some tasks and claim others at once."""
        member = self.all[number]
        ended, member.held = member.held[:done], member.held[done:]
        most = self._most(member, want)
        answer = member.agent.exchange([report_of(task, "done") for task in ended], want)
        claimed = member.agent.claimed(answer)
        assert len(claimed) == most
        member.waiting -= most
        member.held += claimed

    @rule(number=CAMPAIGN)
    def hand_back(self, number: int) -> None:
        """Hand a task back, however many wait already."""
        member = self.all[number]
        if member.held:
            assert member.agent.release(member.held.pop(), started=False) == "accepted"
            member.waiting += 1
            member.agent.forget_position()

    @rule(number=CAMPAIGN, limit=st.none() | COUNT)
    def limit(self, number: int, limit: int | None) -> None:
        """Change how many tasks of a campaign may run."""
        member = self.all[number]
        member.campaign.change(CampaignSpec(member.campaign.path, max_running=limit))
        member.limit = limit

    @rule(
        owner=OWNER,
        quota=st.fixed_dictionaries(
            {},
            optional={
                "max_running": st.none() | COUNT,
                "max_waiting": st.none() | st.integers(0, 12),
                "max_bytes": st.none() | st.integers(1, 12),
                "weight": st.sampled_from([1.0, 2.0]),
            },
        ),
    )
    def change_quota(self, owner: int, quota: QuotaChange) -> None:
        """Change a part of a quota."""
        name = self.owners[owner]
        assert self.queue.owners.set_quota(name, quota) == len(self._of(name))
        self.quotas[name] = {**self.quotas[name], **quota}
        self._judge(name)

    @rule(number=CAMPAIGN, owner=OWNER)
    def give(self, number: int, owner: int) -> None:
        """Give a campaign to an owner; nothing is refused for it."""
        member, name = self.all[number], self.owners[owner]
        assert self.queue.owners.give(member.campaign.path, name) == (member.owner != name)
        member.owner = name

    @rule(number=CAMPAIGN, name=st.sampled_from("ab"), size=st.integers(1, 8))
    def store(self, number: int, name: str, size: int) -> None:
        """Add an input, or replace one: refused if there is no room for what is more."""
        member = self.all[number]
        most = self.quotas[member.owner].get("max_bytes")
        more = size - member.inputs.get(name, 0)
        fits = most is None or more <= 0 or self._stored(member.owner) + more <= most
        words = {"path": member.campaign.path, "name": name, "digest": f"{size}" * 64}
        try:
            self.database.value("add_input", **words, size=size)
        except Conflict:
            assert not fits
        else:
            assert fits
            member.inputs[name] = size

    @rule()
    def look_at_what_is_stored(self) -> None:
        """Do what the keeper does now and then."""
        with self.database.connection() as statements:
            statements.script("select taskq.stop_full_owners()")
        for owner in self.owners:
            self._judge(owner)

    @invariant()
    def owners_have_what_they_have(self) -> None:
        """Compare the list with the model."""
        found = {owner.owner: owner for owner in self.queue.owners.list(self.path)}
        for name in self.owners:
            if not self._of(name):
                assert name not in found
                continue
            owner, quota = found[name], self.quotas[name]
            waiting = sum(it.waiting for it in self._of(name))
            stored = self._stored(name)
            assert (owner.waiting, owner.working) == (waiting, self._working(name))
            assert (owner.bytes, owner.is_full) == (stored, self.full[name])
            assert (owner.max_running, owner.max_waiting, owner.max_bytes, owner.weight) == (
                *(quota.get(what) for what in ("max_running", "max_waiting", "max_bytes")),
                quota.get("weight", 1.0),
            )

    @invariant()
    def campaigns_know_the_quota(self) -> None:
        """As the audit sees it."""
        for member in self.all:
            campaign = member.campaign.campaign_id
            assert self.database.rows("taskq.sql.audit/quota", campaign=campaign) == []


@pytest.mark.parametrize("examples", rest_thorough([6, 40]))
def test_quotas_hold_in_any_order(database: Database, examples: int) -> None:
    """A claim gets exactly what limits and quotas leave, a chunk is added whole or not at all."""
    QuotaMachine.database = database
    explore(QuotaMachine, examples)
