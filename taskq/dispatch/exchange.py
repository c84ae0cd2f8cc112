"""The statements that exchanges need, and the answers made from their rows; without I/O.

`Exchanges.steps` is a generator: it yields statements to run, receives their rows, and returns the
answers. An agent with its own connection runs it for one exchange (`direct`). A gateway runs it
for a whole batch (`batching`): one statement then reports and claims for every agent that reports
on a campaign or claims in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from taskq.db.catalogue import array
from taskq.db.connections import Row
from taskq.db.stored_json import why_unreadable
from taskq.dispatch.campaign_cache import UNKNOWN, CampaignCache, Remaining
from taskq.dispatch.campaign_faults import CampaignFaults, failure, is_of_stored
from taskq.dispatch.exchange_request import ExchangeRequest
from taskq.dispatch.fair_share import FRESH_S, MOST_CAMPAIGNS, CampaignOrder, Scope, Without
from taskq.dispatch.recent import Recent
from taskq_agent import protocol
from taskq_agent.errors import SessionLost
from taskq_agent.protocol import NO_ORDERS, Ack, Answer, Orders

#: Campaigns that one exchange tries to claim in before it gets an answer without tasks.
TRIES: Final = 3
#: Claims and orders of campaigns kept. Drawing an order again costs a statement. Forgetting a claim
#: just when its answer got lost costs another claim; the next heartbeat gives the tasks of the
#: first one back.
_MOST_KEPT: Final = 50_000
_KEPT_S: Final = 300.0
_MOST_ORDERS: Final = 5_000
#: Orders of campaigns drawn for one batch. The other scopes use theirs for up to `_USABLE_S`.
MOST_DRAWS: Final = 8
_USABLE_S: Final = 5.0
_NEVER: Final = float("-inf")
#: The answer to a claim under a used-up lease id: claim under another one.
_SPENT: Final = Orders(claim_after_s=1.0)
#: The answer if the waiting tasks have failed on the agent's host: leave them to others for a
#: while.
_AVOIDED: Final = Orders(claim_after_s=2.0)

#: The identity of a report: its session, and its index among the session's reports. The attempt
#: does not identify it: two sessions may report on one attempt, with unlike rights, and one session
#: may report twice.
Place: TypeAlias = tuple[int, int]
Verdicts: TypeAlias = dict[Place, str]


class Query(NamedTuple):
    """A statement to run: its name and its parameters."""

    name: str
    values: dict[str, Any]


Steps: TypeAlias = Generator[Query, list[Row], list[Answer | SessionLost]]


@dataclass(slots=True)
class _Call:
    """The content of one statement: reports on a campaign and claims in it."""

    campaign: int
    places: list[Place] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    claims: list[_Pending] = field(default_factory=list)

    def query(self) -> Query:
        claims = [claim.exchange for claim in self.claims]
        reports = f"[{','.join(self.reports)}]" if self.reports else None
        if len(self.places) == 1:
            session = self.places[0][0]
            if not claims or [(claim.session, claim.want) for claim in claims] == [(session, 1)]:
                lease = claims[0].lease if claims else None
                values = {"campaign": self.campaign, "reports": reports}
                return Query("exchange_one", values | {"session": session, "lease": lease})
        return Query(
            "exchange",
            {
                "campaign": self.campaign,
                "reports": reports,
                "sessions": array([claim.session for claim in claims]) if claims else None,
                "leases": array([claim.lease for claim in claims]) if claims else None,
                "wants": array([claim.want for claim in claims]) if claims else None,
            },
        )


def _call(calls: dict[int, _Call], campaign: int) -> _Call:
    """Return the call for a campaign; make one if there is none yet."""
    call = calls.get(campaign)
    if call is None:
        call = calls[campaign] = _Call(campaign)
    return call


@dataclass(slots=True)
class _Pending:
    """An exchange under way, with the tasks that it has so far.

    aimed: it has been assigned to a campaign at least once. lost: its session has ended. spent: its
    lease id was used up before. If lost or spent, no other campaign is tried, and the campaign does
    not count as empty. avoided: campaigns whose waiting tasks its host must avoid. The exchange
    tries them no more; they stay open to others.
    """

    exchange: ExchangeRequest
    order: CampaignOrder | None
    tasks: list[protocol.Task] = field(default_factory=list)
    aimed: bool = False
    lost: bool = False
    spent: bool = False
    avoided: Without = ()

    @property
    def is_over(self) -> bool:
        """Whether it has nothing more to claim."""
        return bool(self.tasks) or self.lost or self.spent


class Exchanges:
    """The exchanges of one process, with its cached orders of campaigns and terms.

    clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.campaign_cache = CampaignCache()
        self._clock = clock
        self._faults = CampaignFaults()
        self._drawn_orders: dict[Scope, CampaignOrder] = {}
        # Unfinished tasks at and below a path for agents with some tags, and the time of the count.
        self._left: Recent[tuple[str, tuple[str, ...]], tuple[Remaining, float]] = Recent(
            _MOST_KEPT, _KEPT_S
        )
        # The lease id and campaign of each session's last claim: a repeated claim must go to the
        # same campaign.
        self._claimed: Recent[int, tuple[str, int]] = Recent(_MOST_KEPT, _KEPT_S)

    def steps(
        self, exchanges: Sequence[ExchangeRequest], verdicts: Verdicts | None = None
    ) -> Steps:
        """Yield the statements for a batch in which each session occurs once; return the answers.

        Each statement commits on its own. The answers are in the order of the exchanges; the answer
        to a session that has ended is `SessionLost`. verdicts: those from an earlier try of these
        exchanges; they stand, and new ones are added to the mapping.
        """
        began = self._clock()
        verdicts = {} if verdicts is None else verdicts
        reports: dict[int, _Call] = {}
        under_way: list[_Pending] = []
        drawn_orders = yield from self._campaign_orders(exchanges)
        for exchange in exchanges:
            place = 0
            for some in exchange.reports:
                call = _call(reports, some.campaign)
                after = place + some.number
                call.places += [(exchange.session, place) for place in range(place, after)]
                call.reports.append(some.text)
                place = after
            order = drawn_orders[exchange.scope] if exchange.want else None
            under_way.append(_Pending(exchange, order))

        claiming = [pending for pending in under_way if pending.order is not None]
        for _ in range(TRIES):
            calls = self._calls_for(claiming)
            for call in calls:
                reported = reports.pop(call.campaign, call)
                call.places, call.reports = reported.places, reported.reports
                yield from self._run(call, verdicts)
            claiming = [pending for pending in claiming if not pending.is_over]
            if not calls or not claiming:
                break
        yield from _report_only(list(reports.values()), verdicts)

        answers: list[Answer | SessionLost] = []
        for pending in under_way:
            if pending.lost:
                answers.append(SessionLost("the session has ended"))
            else:
                answers.append((yield from self._answer(pending, verdicts, began)))
        return answers

    def forget(self, scope: Scope) -> None:
        """Drop the order of campaigns of a scope, since there are tasks now."""
        self._drawn_orders.pop(scope.drawn(), None)

    def drawn_at(self, scope: Scope) -> float:
        """Return when the order of campaigns of a scope was drawn; minus infinity if there is none.

        In seconds of the clock. Tasks that are older are in it.
        """
        order = self._drawn_orders.get(scope.drawn())
        return _NEVER if order is None else order.drawn_at

    def _campaign_orders(
        self, exchanges: Sequence[ExchangeRequest]
    ) -> Generator[Query, list[Row], dict[Scope, CampaignOrder]]:
        """Return the order of campaigns of each scope that the exchanges claim in."""
        drawn_orders: dict[Scope, CampaignOrder] = {}
        drawn = 0
        for exchange in exchanges:
            if exchange.want and exchange.scope not in drawn_orders:
                order = drawn_orders[exchange.scope] = self._kept_order(exchange.scope)
                if not order.fresh(self._clock(), FRESH_S if drawn < MOST_DRAWS else _USABLE_S):
                    yield from self._draw(exchange.scope.drawn(), order)
                    drawn += 1
        return drawn_orders

    def _kept_order(self, scope: Scope) -> CampaignOrder:
        """Return the cached order of campaigns of a scope, however old; a new one if none."""
        scope = scope.drawn()
        order = self._drawn_orders.get(scope)
        if order is None:
            if len(self._drawn_orders) >= _MOST_ORDERS:
                self._drawn_orders.clear()
            order = self._drawn_orders[scope] = CampaignOrder()
        return order

    def _draw(self, scope: Scope, order: CampaignOrder) -> Generator[Query, list[Row], None]:
        """Draw the order of campaigns of a scope again."""
        now = self._clock()
        rows = yield Query(
            "servable",
            {
                "path": scope.path,
                "lifetime_s": scope.lifetime_s,
                "offers": list(scope.offers),
                "most": MOST_CAMPAIGNS,
            },
        )
        order.draw(rows, now)
        for campaign in self._faults.left_out(now):
            order.strike(campaign)

    def _calls_for(self, claiming: Sequence[_Pending]) -> list[_Call]:
        """Return one call for each campaign that some of these claims try next."""
        calls: dict[int, _Call] = {}

        def aim(claim: _Pending, campaign: int) -> None:
            self._claimed.put(claim.exchange.session, (claim.exchange.lease, campaign))
            _call(calls, campaign).claims.append(claim)

        groups: dict[tuple[int, Without], list[_Pending]] = {}
        left_out = self._faults.left_out(self._clock())
        for claim in claiming:
            lease, campaign = self._claimed.get(claim.exchange.session) or (None, 0)
            if not claim.aimed and lease == claim.exchange.lease and campaign not in left_out:
                aim(claim, campaign)  # a repetition: the lost answer may have held tasks of it
            else:
                key = id(claim.order), claim.exchange.scope.without + claim.avoided
                groups.setdefault(key, []).append(claim)
            claim.aimed = True
        for (_, without), group in groups.items():
            order = group[0].order
            campaigns = order.spread(len(group), without) if order is not None else []
            for claim, campaign in zip(group, campaigns, strict=False):
                aim(claim, campaign)
        return list(calls.values())

    def _run(self, call: _Call, verdicts: Verdicts) -> Generator[Query, list[Row], None]:
        try:
            (row,) = yield call.query()
        except Exception as error:
            if not call.claims or not is_of_stored(error):
                raise
            self._leave_out(call, error)
            yield from _report_only([call] if call.reports else [], verdicts)
            return
        if call.claims:
            self._faults.answered(call.campaign)
        _keep_verdicts(verdicts, call.places, row["acks"])
        # Two sessions may claim under one lease id, which agents draw; a session claims once.
        by_session = {claim.exchange.session: claim for claim in call.claims}
        failures: list[str] = []
        failed: set[int] = set()
        for lease, task, attempt, key, payload, session in row["tasks"] or ():
            claimed = protocol.Task(
                campaign=call.campaign,
                revision=row["revision"],
                task=task,
                key=key,
                attempt=attempt,
                lease=lease,
                payload=payload,
            )
            why = why_unreadable(payload)
            if why is None:
                by_session[session].tasks.append(claimed)
            else:
                failures.append(failure(claimed, session, why))
                failed.add(session)
        if failures:
            yield _Call(call.campaign, reports=failures).query()
        refused, spent = set(row["refused"] or ()), set(row["spent"] or ())
        avoided = set(row["avoided"] or ())
        for claim in call.claims:
            claim.lost = claim.exchange.session in refused
            claim.spent = claim.exchange.session in spent
            if claim.order is None or claim.is_over or claim.exchange.session in failed:
                continue
            if claim.exchange.session in avoided:
                claim.avoided += ((call.campaign, row["revision"]),)
            else:
                claim.order.strike(call.campaign)

    def _leave_out(self, call: _Call, error: Exception) -> None:
        """Leave a campaign out for a while, since nothing can be claimed there."""
        self._faults.note(call.campaign, error, self._clock())
        for order in self._drawn_orders.values():
            order.strike(call.campaign)
        call.claims = []

    def _answer(
        self, pending: _Pending, verdicts: Verdicts, began: float
    ) -> Generator[Query, list[Row], Answer]:
        exchange, tasks = pending.exchange, tuple(pending.tasks)
        campaigns: tuple[protocol.CampaignTerms, ...] = ()
        left = UNKNOWN
        orders = NO_ORDERS
        if tasks:
            campaigns = yield from self._campaign_terms(tasks[0])
        elif pending.spent:
            orders = _SPENT
        elif pending.avoided:
            orders = _AVOIDED
        elif pending.order is not None:
            left = yield from self._left_over(exchange.scope, began)
        places = enumerate(exchange.fences)
        acks = tuple(Ack(*fence, verdicts[exchange.session, place]) for place, fence in places)
        return Answer(acks, tasks, campaigns, left.unfinished, orders, unservable=left.unservable)

    def _left_over(self, scope: Scope, began: float) -> Generator[Query, list[Row], Remaining]:
        """Return what is unfinished in a scope; a count of zero is never older than `began`.

        A batch shares one count; a count above zero is reused for a second.
        """
        key = scope.path, scope.offers
        left, counted_at = self._left.get(key) or (UNKNOWN, _NEVER)
        if counted_at < (began - FRESH_S if left.awaited else began):
            counted_at = self._clock()
            (row,) = yield Query("left_over", {"path": scope.path, "offers": list(scope.offers)})
            left = Remaining.from_row(row)
            self._left.put(key, (left, counted_at))
        return left

    def _campaign_terms(
        self, task: protocol.Task
    ) -> Generator[Query, list[Row], tuple[protocol.CampaignTerms, ...]]:
        """Return the terms of a task's campaign, looked up if they have changed."""
        known = self.campaign_cache.of(task)
        if known is None:
            rows = yield Query("campaign_by_id", {"campaign": task.campaign})
            if not rows:  # removed just now, with its tasks
                return ()
            known = self.campaign_cache.put(rows[0])
        return (known,)


def _report_only(calls: Sequence[_Call], verdicts: Verdicts) -> Generator[Query, list[Row], None]:
    """Report on campaigns in which nothing is claimed, in one statement for all of them."""
    if not calls:
        return
    if len(calls) == 1:
        query = calls[0].query()
    else:
        reports = ",".join(report for call in calls for report in call.reports)
        campaigns = array(call.campaign for call in calls for _ in call.places)
        query = Query("settle_many", {"campaigns": campaigns, "reports": f"[{reports}]"})
    (row,) = yield query
    _keep_verdicts(verdicts, [place for call in calls for place in call.places], row["acks"])


def _keep_verdicts(verdicts: Verdicts, places: Sequence[Place], acks: Sequence[str] | None) -> None:
    for place, verdict in zip(places, acks or (), strict=True):
        verdicts.setdefault(place, verdict)  # an earlier verdict stands


def run(steps: Steps, ask: Callable[[Query], list[Row]]) -> list[Answer | SessionLost]:
    """Run steps to their end, each statement with `ask`; return the answers."""
    try:
        query = next(steps)
        while True:
            try:
                rows = ask(query)
            except Exception as error:  # noqa: BLE001, PERF203  # raised again, or the steps go on
                query = steps.throw(error)
            else:
                query = steps.send(rows)
    except StopIteration as end:
        answers: list[Answer | SessionLost] = end.value
        return answers
