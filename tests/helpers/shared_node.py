"""A node whose agent serves several campaigns of made-up devices and named resources: no threads.

It plays the queue and the slots for an agent's core, and checks after each step that nothing of the
node is given out twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Final

from taskq_agent.core import events as ev
from taskq_agent.core.core import AgentCore
from taskq_agent.core.reports import fence
from taskq_agent.handlers.base import Ended
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    RELEASED,
    Ack,
    Answer,
    CampaignTerms,
    Held,
    Hello,
    Report,
    Request,
    Task,
    Welcome,
)
from taskq_agent.resources import Resources
from taskq_agent.room import Room
from taskq_agent.settings import AgentSettings
from taskq_agent.slot_shares import WHOLE

PATH: Final = "/c"


class SharedNode:
    """campaigns: what one start of each needs, by number. tasks: how many each has.

    running: the starts by slot. claims: those that were answered, with the campaigns of their
    tasks. order: of the campaigns, in which the queue gives tasks out.
    """

    def __init__(
        self,
        node: Resources,
        slots: int,
        campaigns: dict[int, dict[str, Any]],
        tasks: int = 10,
    ) -> None:
        self.node = node
        self.terms = {
            number: CampaignTerms(
                number,
                1,
                f"{PATH}/{number}",
                needs.get("handler", {"kind": "command"}),
                {},
                None,
                **{name: value for name, value in needs.items() if name != "handler"},
            )
            for number, needs in campaigns.items()
        }
        self.waiting = {number: deque(range(tasks)) for number in campaigns}
        self.order = list(campaigns)
        self.running: dict[int, ev.StartTask] = {}
        self.claims: list[tuple[Request, list[int]]] = []
        self.done = Counter[int]()
        self.handed_back = 0
        self.logged: list[str] = []
        self.started: list[ev.StartTask] = []
        self.in_flight: ev.Call | None = None
        self.now = 1_000.0
        self._leases: dict[Held, tuple[int, int]] = {}
        self.core = AgentCore(
            AgentSettings(campaign=PATH, slots=slots),
            now=self.now,
            draw_hello=lambda: Hello("key", PATH),
            draw_lease=LeaseIds(lambda: 0),
            uniform=lambda: 0.5,
            room=Room(node),
        )
        self.tick()

    def tick(self, seconds: float = 0.0) -> None:
        """Let time pass, and answer all calls."""
        self.now += seconds
        self._feed(ev.Tick())
        while self.in_flight is not None:
            call, self.in_flight = self.in_flight, None
            self._feed(self._answered(call))

    def end(self, slot: int) -> None:
        """End what runs in a slot, with success."""
        start = self.running.pop(slot)
        if start.campaign.handler.get("batch"):
            ends = tuple((fence(task), Ended(DONE, result={})) for task in start.tasks)
            self._feed(ev.BatchMoved(slot, start.campaign, ends, over=True))
        else:
            self._feed(ev.TaskEnded(slot, Ended(DONE, result={})))
        self.tick()

    def at_work(self) -> list[int]:
        """Return the campaigns of what runs, sorted."""
        return sorted(start.campaign.campaign for start in self.running.values())

    def devices(self) -> list[tuple[str, ...]]:
        """Return the devices of what runs, sorted."""
        return sorted(start.grant.names for start in self.running.values() if start.grant)

    def _feed(self, event: ev.Event) -> None:
        for action in self.core.handle(event, self.now):
            if isinstance(action, (Hello, Request, ev.CloseSession)):
                assert self.in_flight is None
                self.in_flight = action
            elif isinstance(action, ev.StartTask):
                assert action.slot not in self.running
                self.running[action.slot] = action
                self.started.append(action)
                self._check()
            elif isinstance(action, ev.LogMessage):
                self.logged.append(action.text % action.args)

    def _answered(self, call: ev.Call) -> ev.Event:
        if isinstance(call, Hello):
            return Welcome(1, 30.0, 120.0)
        assert isinstance(call, Request)
        acks = tuple(self._settled(report) for report in call.reports)
        tasks = tuple(self._tasks(call)) if call.want else ()
        terms = tuple(self.terms[number] for number in {task.campaign for task in tasks})
        if call.want:
            self.claims.append((call, [task.campaign for task in tasks]))
        left = sum(map(len, self.waiting.values()))
        return Answer(acks, tasks, terms, None if tasks else left)

    def _settled(self, report: Report) -> Ack:
        campaign, number = self._leases.pop(fence(report))
        if report.outcome == RELEASED:
            self.handed_back += 1
            self.waiting[campaign].appendleft(number)
        else:
            self.done[campaign] += 1
        return Ack(report.campaign, report.task, report.lease, ACCEPTED)

    def _tasks(self, claim: Request) -> Iterator[Task]:
        left = claim.want
        for campaign in self.order:
            if (campaign, 1) in claim.without:
                continue
            while left and self.waiting[campaign]:
                number = self.waiting[campaign].popleft()
                task = Task(campaign, 1, number, f"{campaign}-{number}", 1, claim.lease, {})
                self._leases[fence(task)] = campaign, number
                left -= 1
                yield task

    def _check(self) -> None:
        """Check that starts have what they need, and that nothing is given out twice."""
        parts, amounts = Counter[str](), Counter[str]()
        for start in self.running.values():
            terms, grant = start.campaign, start.grant
            names = () if grant is None else grant.names
            assert len({*names}) == len(names) == (0 if terms.gpus is None else max(1, terms.gpus))
            for name, share in () if grant is None else grant.devices:
                assert share >= min(terms.gpus or 0, 1) * WHOLE - 1
                parts[name] += share
            amounts.update(terms.named_resources)
        assert {*parts} <= {*self.node.gpus}
        assert all(taken <= WHOLE for taken in parts.values()), parts
        assert all(taken <= self.node.named[name] for name, taken in amounts.items()), amounts
