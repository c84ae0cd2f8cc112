"""Protocols with one mistake each about hosts. Each must break a rule."""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.hosts import rules
from tests.protocol.hosts.configurations import BRIEF
from tests.protocol.hosts.queue import HostQueue, waiting
from tests.protocol.hosts.state import (
    BAD,
    DAY,
    LACKING,
    MINUTES,
    OPEN,
    SHAKY,
    WELL,
    Bounds,
    Campaign,
    Rest,
    State,
    Task,
)


class Anywhere(HostQueue):
    """A task that has failed may be tried again anywhere."""

    def may_take(self, state: State, task: Task, host: int) -> bool:
        return True


class LastAnywhere(HostQueue):
    """The last attempt waits for another host no longer than the others."""

    def is_waited_for(self, task: Task) -> bool:
        return task.patience >= MINUTES


class KnowsOneHost(HostQueue):
    """Of the hosts on which a task has failed the last alone is known."""

    def failed(self, task: Task, host: int) -> Task:
        return super().failed(task._replace(avoids=()), host)


class HandingBackForgets(HostQueue):
    """A task that was handed back begins anew."""

    def handed_back(self, task: Task) -> Task:
        return waiting(task)._replace(avoids=())

    def refused(self, task: Task) -> Task:
        return waiting(task)


class LossForgets(HostQueue):
    """A task whose agent was lost begins anew."""

    def lost(self, task: Task, host: int, most: int) -> Task:
        return super().lost(task._replace(avoids=()), host, most)


class LossIsNoReason(HostQueue):
    """A task that is lost again and alone goes back to the same host."""

    def lost(self, task: Task, host: int, most: int) -> Task:
        return super().lost(task, host, most)._replace(avoids=task.avoids)


class LossBindsForADay(HostQueue):
    """A task with one attempt that is lost waits for another host as one that failed."""

    def is_waited_for(self, task: Task) -> bool:
        last = task.failures + 1 >= self.bounds.max_attempts
        return task.patience >= (DAY if last else MINUTES)


class LeasedAheadForAll(HostQueue):
    """What is leased ahead goes to anyone who comes, be it where it has failed."""

    def may_lease_ahead(self, state: State, task: Task) -> bool:
        return True


class NeverBack(HostQueue):
    """A task never goes back to a host where it has failed."""

    def is_bound(self, state: State, task: Task) -> bool:
        return True


class LeftServe(HostQueue):
    """Hosts count as serving whose agents have left."""

    def hosts_serving(self, state: State, campaign: int) -> set[int]:
        return set(self.bounds.hosts)


class RefusersServe(HostQueue):
    """Hosts count as serving whose agents leave the campaign out."""

    def serves(self, campaign: Campaign, session: int) -> bool:
        return True


class SuccessShortensPauses(HostQueue):
    """Once somebody has succeeded, agents are taken to begin anew with short pauses."""

    def looked(self, campaign: Campaign) -> Campaign:
        after = super().looked(campaign)
        if not campaign.succeeded:
            return after
        refusals = tuple(refusal._replace(pauses=0) for refusal in after.refusals)
        return after._replace(refusals=refusals)


class RefusalFails(HostQueue):
    """A refusal is a failure."""

    def refused(self, task: Task) -> Task:
        return self.failed(task, 9)


class RefusalForgets(HostQueue):
    """A task that was refused begins anew."""

    def refused(self, task: Task) -> Task:
        return Task(task.campaign)


class OneHostPauses(HostQueue):
    """A host that refuses often enough pauses a campaign, anyone who else serves it."""

    def all_of_them(self, state: State, hosts: set[int], times: int) -> bool:
        return times >= self.bounds.times


class OnceIsEnough(HostQueue):
    """A host that is alone pauses a campaign at its first refusal."""

    def all_of_them(self, state: State, hosts: set[int], times: int) -> bool:
        return super().all_of_them(state, hosts, times and self.bounds.times)


class HandsNotAsked(HostQueue):
    """Some hosts pause a campaign that another has tasks of in hand."""

    def many(self, state: State, campaign: int, hosts: set[int]) -> bool:
        return len(hosts) >= self.bounds.witnesses


class AgentsAreWitnesses(HostQueue):
    """Agents of one host are several that agree."""

    def witness(self, state: State, session: int) -> int:
        return session


class SideBySide(HostQueue):
    """Attempts that an agent makes side by side are several refusals."""

    def is_another(self, task: Task) -> bool:
        return True


class SuccessIgnored(HostQueue):
    """What was refused before a success counts on."""

    def looked(self, campaign: Campaign) -> Campaign:
        return campaign._replace(succeeded=False)


class ChangeIgnored(HostQueue):
    """What was claimed before a change and refused after it counts against what is now."""

    def is_noted(self, campaign: Campaign, task: Task) -> bool:
        return True


class NeverPauses(HostQueue):
    """However many hosts refuse a campaign, it stays open."""

    def pause_refused(self, state: State, number: int) -> Campaign:
        return state.campaigns[number]


class LookNeverEnds(HostQueue):
    """The keeper takes its first look for one that has seen a success, each time."""

    def looked(self, campaign: Campaign) -> Campaign:
        refusals = tuple(refusal._replace(times=0) for refusal in campaign.refusals)
        return campaign._replace(refusals=refusals)


class PausedWithoutReason(HostQueue):
    """A campaign that pauses itself does not say why."""

    def pause_refused(self, state: State, number: int) -> Campaign:
        return super().pause_refused(state, number)._replace(why=())


class ResumedWithReason(HostQueue):
    """A campaign that was resumed still says why it was paused."""

    def resume(self, campaign: Campaign) -> Campaign:
        return super().resume(campaign)._replace(why=campaign.why)


class ResumedInSilence(HostQueue):
    """A campaign that was resumed keeps its revision: its agents do not learn of it."""

    def resume(self, campaign: Campaign) -> Campaign:
        return super().resume(campaign)._replace(revision=campaign.revision)


class ResumeRemembers(HostQueue):
    """What was refused before counts on once the campaign is resumed."""

    def resume(self, campaign: Campaign) -> Campaign:
        return campaign._replace(status=OPEN, why=(), revision=campaign.revision + 1)


class LeavesQueue(HostQueue):
    """An agent that cannot run a campaign takes its node for broken, and leaves."""

    def leaves(self) -> bool:
        return True


class LeavesAllOut(HostQueue):
    """An agent that cannot run a campaign waits before it tries anything."""

    def leaves_out(self, state: State, agent: int, campaign: int) -> bool:
        return any(
            super(LeavesAllOut, self).leaves_out(state, agent, number)
            for number in range(len(state.campaigns))
        )


class OldRefusalWins(HostQueue):
    """An agent that refuses what it claimed before a change forgets what it has refused since."""

    def rests(self, rest: Rest | None, task: Task) -> Rest:
        if rest is not None and rest.revision != task.revision:
            rest = None
        return super().rests(rest, task)


class HostVariant(NamedTuple):
    """A protocol, where to look at it, and the rule that it breaks there."""

    queue: type[HostQueue]
    bounds: Bounds
    rule: str


THREE = Bounds((0, 1, 2), ((BAD,), (SHAKY,), (WELL,)), max_attempts=3)
ALONE = Bounds((0,), ((LACKING,),))
SLOTS = Bounds((0, 1), ((LACKING,), (LACKING,)), tasks=(0, 0), slots=2)

#: Where each is looked at, and what it breaks there.
HOST_VARIANTS = [
    HostVariant(Anywhere, THREE, rules.ELSEWHERE),
    HostVariant(LastAnywhere, THREE, rules.LAST),
    HostVariant(KnowsOneHost, BRIEF["hosts come and go"], rules.ELSEWHERE),
    HostVariant(HandingBackForgets, BRIEF["hosts come and go"], rules.ELSEWHERE),
    HostVariant(LossForgets, BRIEF["hosts come and go"], rules.ELSEWHERE),
    HostVariant(LossIsNoReason, BRIEF["losses"], rules.ELSEWHERE),
    HostVariant(LossBindsForADay, BRIEF["losses"], rules.SOON),
    HostVariant(LeasedAheadForAll, BRIEF["front"], rules.ELSEWHERE),
    HostVariant(NeverBack, Bounds((0,), ((WELL,),)), rules.STRANDED),
    HostVariant(LeftServe, BRIEF["hosts come and go"], rules.STRANDED),
    HostVariant(RefusersServe, BRIEF["a lacking host"], rules.STRANDED),
    HostVariant(SuccessShortensPauses, BRIEF["a lacking host"], rules.STRANDED),
    HostVariant(RefusalFails, BRIEF["a lacking host"], rules.NO_COST),
    HostVariant(RefusalForgets, BRIEF["a lacking host"], rules.NO_COST),
    HostVariant(OneHostPauses, BRIEF["a lacking host"], rules.AGREED),
    HostVariant(OnceIsEnough, ALONE, rules.AGREED),
    HostVariant(HandsNotAsked, BRIEF["some hosts lack something"], rules.AGREED),
    HostVariant(AgentsAreWitnesses, BRIEF["one machine"], rules.AGREED),
    HostVariant(SideBySide, SLOTS._replace(witnesses=3), rules.AGREED),
    HostVariant(SuccessIgnored, BRIEF["some hosts lack something"], rules.AGREED),
    HostVariant(ChangeIgnored, BRIEF["a repair"], rules.AGREED),
    HostVariant(NeverPauses, ALONE, rules.ENDS),
    HostVariant(LookNeverEnds, ALONE, rules.ENDS),
    HostVariant(PausedWithoutReason, ALONE, rules.WHY),
    HostVariant(ResumedWithReason, ALONE._replace(words=1), rules.WHY),
    HostVariant(ResumedInSilence, ALONE._replace(words=1), rules.ANEW),
    HostVariant(ResumeRemembers, ALONE._replace(words=1), rules.ANEW),
    HostVariant(LeavesQueue, BRIEF["two campaigns"], rules.ENDS),
    HostVariant(LeavesAllOut, BRIEF["two campaigns"], rules.OTHERS),
    HostVariant(OldRefusalWins, SLOTS._replace(words=1), rules.LEFT_OUT),
]
