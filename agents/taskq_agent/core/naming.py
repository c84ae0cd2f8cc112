"""What heartbeats name of the attempts that an agent holds.

Tasks that begin together are named by the claims that got them: there may be thousands. Under
claims of an earlier session, and under leases of others, each is named by itself.
"""

from __future__ import annotations

from itertools import islice
from typing import Dict, List, Optional, Set, Tuple

from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.handlers.base import is_batched
from taskq_agent.held_claims import MAX_BEGUN, MAX_HELD_CLAIMS, HeldClaim, LeftOfClaim
from taskq_agent.protocol import Answer, Held

#: Most attempts under claims of earlier sessions that a heartbeat names; they take turns.
_MOST_FORMER = 500

_Claim = Tuple[int, str]


class Naming:
    """Names what is held."""

    def __init__(self, held_tasks: HeldTasks) -> None:
        self._held_tasks = held_tasks
        self._former: Set[_Claim] = set()
        self._turn = 0

    def claimed(self, answer: Answer, lease: str) -> None:
        """Note what a claim under this lease got."""
        claims = self._held_tasks.claims
        if len(claims) >= MAX_HELD_CLAIMS // 2:
            self._forget_ended()
        claims.update((terms.campaign, lease) for terms in answer.campaigns if is_batched(terms))

    def lose_session(self) -> None:
        """Note that all claims so far are those of an earlier session."""
        self._former |= self._held_tasks.claims
        self._held_tasks.claims.clear()

    def named(self) -> Tuple[Tuple[Held, ...], Tuple[HeldClaim, ...]]:
        """Return what the session must keep: attempts, and claims.

        They include attempts whose reports are in flight: the queue does not know of their end yet.
        Of earlier sessions some are named at a time: the fence decides what counts.
        """
        self._forget_ended()
        one_by_one: List[Held] = []
        former: List[Held] = []
        claimed = islice(self._held_tasks.claims, MAX_HELD_CLAIMS)
        counts: Dict[_Claim, int] = dict.fromkeys(claimed, 0)
        for held in self._all():
            claim = (held.campaign, held.lease)
            if claim not in counts:
                (former if claim in self._former else one_by_one).append(held)
            elif held not in self._held_tasks.reports:
                counts[claim] += 1
        if len(former) > _MOST_FORMER:
            first = self._turn % len(former)
            self._turn = first + _MOST_FORMER
            former = [*former, *former][first : first + _MOST_FORMER]
        begun, room = self._begun(), MAX_BEGUN
        claims = []
        for (campaign, lease), count in counts.items():
            of_claim = begun.get((campaign, lease), [])
            if of_claim is not None and len(of_claim) > room:
                of_claim = None
            room -= len(of_claim or ())
            known = None if of_claim is None else tuple(of_claim)
            claims.append(HeldClaim(campaign, lease, count, known))
        return (*one_by_one, *former), tuple(claims)

    def others_than(self, left: LeftOfClaim) -> List[Held]:
        """Return the attempts of a claim that wait or run although it does not have them left."""
        claim, kept = (left.campaign, left.lease), frozenset(left.tasks)
        attempts = (*self._held_tasks.queue, *(task.held for task in self._held_tasks.in_slots()))
        return [
            held
            for held in attempts
            if (held.campaign, held.lease) == claim and held.task not in kept
        ]

    def _begun(self) -> Dict[_Claim, Optional[List[int]]]:
        """Return the tasks of claims that have begun; None where a program does not say that."""
        found: Dict[_Claim, Optional[List[int]]] = {}
        for slot in self._held_tasks.running:
            says = slot in self._held_tasks.say_begun
            for running in self._held_tasks.in_slot(slot):
                claim = (running.held.campaign, running.held.lease)
                known = found.setdefault(claim, [])
                if not says:
                    found[claim] = None
                elif running.begun and known is not None:
                    known.append(running.held.task)
        return found

    def _forget_ended(self) -> None:
        seen = {(held.campaign, held.lease) for held in self._all()}
        self._held_tasks.claims &= seen
        self._former &= seen

    def _all(self) -> List[Held]:
        held_tasks = self._held_tasks
        return [
            *held_tasks.queue,
            *(running.held for running in held_tasks.in_slots() if not running.revoked),
            *(held for held in held_tasks.reports if held not in held_tasks.inherited),
        ]
