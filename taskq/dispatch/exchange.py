"""What exchanges ask of the database, apart from how it is asked.

`Exchanges.steps` is a generator: it yields the statements to run, takes their rows, and returns the
answers. One agent beside the database runs it on its connection (`direct`); who speaks for many
gathers their exchanges and runs it for all of them at once (`gathering`): one statement then
reports and claims for every agent that has to do with a campaign.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from taskq.db.connections import Row
from taskq.db.queries import array
from taskq.dispatch import remaining
from taskq.dispatch.campaign_cache import CampaignCache
from taskq.dispatch.fair_share import FRESH_S, MOST_CAMPAIGNS, CampaignOrder, Scope, Without
from taskq.dispatch.remaining import Remaining
from taskq.dispatch.reports import encoded
from taskq.errors import SchemaError, ServerUnsuitable, SessionEnded, TaskqError, Unavailable
from taskq_agent import protocol
from taskq_agent.errors import Refused, SessionLost, TransportFailed
from taskq_agent.protocol import NO_ORDERS, Ack, Answer, Orders, Request

#: Campaigns that one exchange tries before it goes away empty-handed.
TRIES: Final = 3
#: Choices and claims kept. A choice that is forgotten costs a statement; a claim, should its answer
#: get lost just then, another claim, until the next beat gives the first one's tasks back.
_MOST_KEPT: Final = 50_000
_MOST_CHOICES: Final = 5_000
#: Choices drawn before what is gathered gets on; the others serve on for so long as they are.
MOST_DRAWS: Final = 8
_USABLE_S: Final = 5.0
_NEVER: Final = float("-inf")
#: Who claims under a lease id that its task has had before is told to claim under another.
_SPENT: Final = Orders(claim_after_s=1.0)
#: Who gets nothing since what waits has failed on its host is told to leave it to others a while.
_AVOIDED: Final = Orders(claim_after_s=2.0)

_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


class Query(NamedTuple):
    """A statement to run, by its name, with its parameters."""

    name: str
    values: dict[str, Any]


class Fence(NamedTuple):
    """What an attempt is known by."""

    campaign: int
    task: int
    lease: str


def fence_arrays(fences: Sequence[Fence | protocol.Task]) -> dict[str, str]:
    """Return what attempts are known by as the server-side functions take that of many."""
    return {
        "campaigns": array(one.campaign for one in fences),
        "tasks": array(one.task for one in fences),
        "leases": array(one.lease for one in fences),
    }


class Asked(NamedTuple):
    """One exchange: who claims how much, under which lease id, of what; and what it reports.

    reports: as `settle` takes them, in the order of `fences`.
    """

    session: int
    want: int
    lease: str
    serving: Scope
    fences: Sequence[Fence]
    reports: Sequence[str]


def asked(request: Request, serving: Scope, *, fenced: bool = False) -> Asked:
    """Return an exchange to be done; raise `Refused` if no queue could answer it.

    fenced: whether the session may report only on attempts of its own and of sessions that were
    opened with the same token; any other is then `unknown`.
    """
    if not 0 <= request.want <= protocol.MAX_CLAIM:
        raise Refused(f"a claim for {request.want} tasks; 0 to {protocol.MAX_CLAIM} are allowed")
    if request.want and not _LEASE.fullmatch(request.lease):
        raise Refused(f"{request.lease!r:.80} is no lease id; `LeaseIds` draws them")
    if len(serving.without) > protocol.MAX_WITHOUT:
        raise Refused(f"a claim leaves out {protocol.MAX_WITHOUT} campaigns at most")
    if serving.lifetime_s is not None and not math.isfinite(serving.lifetime_s):
        raise Refused(f"an agent cannot live for {serving.lifetime_s} s; leave the lifetime out")
    try:
        reports = tuple(
            _encode(encoded(report, request.session, fenced=fenced)) for report in request.reports
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"a report cannot be written as JSON: {error}") from error
    fences = [Fence(report.campaign, report.task, report.lease) for report in request.reports]
    return Asked(request.session, request.want, request.lease, serving, fences, reports)


_LEASE: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


#: A report's place: whose it is, and where it stands among the session's. Not what it is about: two
#: may report on one attempt, with unlike rights, and one session may do so twice.
Place: TypeAlias = tuple[int, int]
Verdicts: TypeAlias = dict[Place, str]
Steps: TypeAlias = Generator[Query, list[Row], list[Answer | SessionLost]]


@dataclass(slots=True)
class _Call:
    """What one `exchange` statement is about: one campaign, reports on it, claims in it."""

    campaign: int
    places: list[Place] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    claims: list[_Pending] = field(default_factory=list)

    def query(self) -> Query:
        claims = [one.asked for one in self.claims]
        return Query(
            "exchange",
            {
                "campaign": self.campaign,
                "reports": f"[{','.join(self.reports)}]" if self.reports else None,
                "sessions": array([one.session for one in claims]) if claims else None,
                "leases": array([one.lease for one in claims]) if claims else None,
                "wants": array([one.want for one in claims]) if claims else None,
            },
        )


def _call(calls: dict[int, _Call], campaign: int) -> _Call:
    """Return the call that is about a campaign, a new one if there is none yet."""
    call = calls.get(campaign)
    if call is None:
        call = calls[campaign] = _Call(campaign)
    return call


@dataclass(slots=True)
class _Pending:
    """An exchange on its way: what it has got so far.

    lost: its session has ended. spent: its lease id was used up before. In both cases there is no
    point in trying elsewhere, and nothing is learned of what waits. avoided: campaigns in which
    tasks wait that its host must not have; they are tried no more for it, and stay open to others.
    """

    asked: Asked
    choice: CampaignOrder | None
    tasks: list[protocol.Task] = field(default_factory=list)
    aimed: bool = False
    lost: bool = False
    spent: bool = False
    avoided: Without = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be claimed for it."""
        return bool(self.tasks) or self.lost or self.spent


class Exchanges:
    """The exchanges of one process: which campaigns are tried, and what is known of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.described = CampaignCache()
        self._clock = clock
        self._choices: dict[Scope, CampaignOrder] = {}
        # What is left at and below a path for agents with some tags, and when that was asked.
        self._left: dict[tuple[str, tuple[str, ...]], tuple[Remaining, float]] = {}
        # Where the last claim of a session went: asked again, it must go to the same campaign.
        self._claimed: dict[int, tuple[str, int]] = {}

    def steps(self, exchanges: Sequence[Asked], verdicts: Verdicts | None = None) -> Steps:
        """Exchange for some sessions, each of them once.

        Each statement commits by itself. The answers are in the order of the requests; in place
        of one stands `SessionLost` if the session has ended. verdicts: of reports, as far as an
        earlier try has got, which then stand; this one's are added.
        """
        began = self._clock()
        verdicts = {} if verdicts is None else verdicts
        reports: dict[int, _Call] = {}
        pending: list[_Pending] = []
        choices = yield from self._chosen(exchanges)
        for one_asked in exchanges:
            told = zip(one_asked.fences, one_asked.reports, strict=True)
            for place, (fence, report) in enumerate(told):
                call = _call(reports, fence.campaign)
                call.places.append((one_asked.session, place))
                call.reports.append(report)
            choice = choices[one_asked.serving] if one_asked.want else None
            pending.append(_Pending(one_asked, choice))

        claiming = [one for one in pending if one.choice is not None]
        for _ in range(TRIES):
            calls = self._aimed(claiming)
            for call in calls:
                reported = reports.pop(call.campaign, call)
                call.places, call.reports = reported.places, reported.reports
                yield from self._run(call, verdicts)
            claiming = [one for one in claiming if not one.is_over]
            if not calls or not claiming:
                break
        yield from _settle(list(reports.values()), verdicts)

        answers: list[Answer | SessionLost] = []
        for one in pending:
            if one.lost:
                answers.append(SessionLost("the session has ended"))
            else:
                answers.append((yield from self._answer(one, verdicts, began)))
        return answers

    def forget(self, serving: Scope) -> None:
        """Draw anew what can be claimed: there is something, where there was nothing."""
        self._choices.pop(serving.drawn(), None)

    def _chosen(
        self, exchanges: Sequence[Asked]
    ) -> Generator[Query, list[Row], dict[Scope, CampaignOrder]]:
        """Return the choice of each serving that something is claimed in."""
        choices: dict[Scope, CampaignOrder] = {}
        drawn = 0
        for one in exchanges:
            if one.want and one.serving not in choices:
                choice = choices[one.serving] = self._kept(one.serving)
                if not choice.fresh(self._clock(), FRESH_S if drawn < MOST_DRAWS else _USABLE_S):
                    yield from self._draw(one.serving.drawn(), choice)
                    drawn += 1
        return choices

    def _kept(self, serving: Scope) -> CampaignOrder:
        """Return what is known of the campaigns to claim in, however old it is."""
        serving = serving.drawn()
        choice = self._choices.get(serving)
        if choice is None:
            if len(self._choices) >= _MOST_CHOICES:
                self._choices.clear()
            choice = self._choices[serving] = CampaignOrder()
        return choice

    def _draw(self, serving: Scope, choice: CampaignOrder) -> Generator[Query, list[Row], None]:
        """Take in which campaigns there are to claim in now."""
        now = self._clock()
        rows = yield Query(
            "servable",
            {
                "path": serving.path,
                "lifetime_s": serving.lifetime_s,
                "offers": list(serving.offers),
                "most": MOST_CAMPAIGNS,
            },
        )
        choice.draw(rows, now)

    def _aimed(self, claiming: Sequence[_Pending]) -> list[_Call]:
        """Group claims by the campaign that each tries next."""
        calls: dict[int, _Call] = {}

        def aim(one: _Pending, campaign: int) -> None:
            self._claimed[one.asked.session] = (one.asked.lease, campaign)
            _call(calls, campaign).claims.append(one)

        if len(self._claimed) >= _MOST_KEPT:
            self._claimed.clear()
        groups: dict[tuple[int, Without], list[_Pending]] = {}
        for one in claiming:
            lease, campaign = self._claimed.get(one.asked.session, (None, 0))
            if not one.aimed and lease == one.asked.lease:
                aim(one, campaign)  # its answer was lost; it may hold tasks there
            else:
                key = id(one.choice), one.asked.serving.without + one.avoided
                groups.setdefault(key, []).append(one)
            one.aimed = True
        for (_, without), group in groups.items():
            choice = group[0].choice
            campaigns = choice.spread(len(group), without) if choice is not None else []
            for one, campaign in zip(group, campaigns, strict=False):
                aim(one, campaign)
        return list(calls.values())

    def _run(self, call: _Call, verdicts: Verdicts) -> Generator[Query, list[Row], None]:
        (row,) = yield call.query()
        _tell(verdicts, call.places, row["acks"])
        # Two sessions may claim under one lease id, which agents draw; a session claims once.
        by_session = {one.asked.session: one for one in call.claims}
        for lease, task, attempt, key, payload, session in row["tasks"] or ():
            by_session[session].tasks.append(
                protocol.Task(
                    campaign=call.campaign,
                    revision=row["revision"],
                    task=task,
                    key=key,
                    attempt=attempt,
                    lease=lease,
                    payload=payload,
                )
            )
        refused, spent = set(row["refused"] or ()), set(row["spent"] or ())
        avoided = set(row["avoided"] or ())
        for one in call.claims:
            one.lost = one.asked.session in refused
            one.spent = one.asked.session in spent
            if one.choice is None or one.is_over:
                continue
            if one.asked.session in avoided:
                one.avoided += ((call.campaign, row["revision"]),)
            else:
                one.choice.strike(call.campaign)

    def _answer(
        self, one: _Pending, verdicts: Verdicts, began: float
    ) -> Generator[Query, list[Row], Answer]:
        campaigns: tuple[protocol.CampaignTerms, ...] = ()
        left = remaining.UNKNOWN
        orders = NO_ORDERS
        if one.tasks:
            campaigns = yield from self._described(one.tasks[0])
        elif one.spent:
            orders = _SPENT
        elif one.avoided:
            orders = _AVOIDED
        elif one.choice is not None:
            left = yield from self._left_over(one.asked.serving, began)
        places = enumerate(one.asked.fences)
        acks = tuple(Ack(*fence, verdicts[one.asked.session, place]) for place, fence in places)
        return Answer(
            acks, tuple(one.tasks), campaigns, left.unfinished, orders, unservable=left.unservable
        )

    def _left_over(self, serving: Scope, began: float) -> Generator[Query, list[Row], Remaining]:
        """Return what is left. That it is nothing is never older than the question.

        Those that ask together share one count, and all within a second while something is left.
        """
        key = serving.path, serving.offers
        left, counted_at = self._left.get(key, (remaining.UNKNOWN, _NEVER))
        if counted_at < (began - FRESH_S if left.awaited else began):
            if len(self._left) >= _MOST_KEPT:
                self._left.clear()
            counted_at = self._clock()
            (row,) = yield Query(
                "left_over", {"path": serving.path, "offers": list(serving.offers)}
            )
            left = remaining.told(row)
            self._left[key] = (left, counted_at)
        return left

    def _described(
        self, task: protocol.Task
    ) -> Generator[Query, list[Row], tuple[protocol.CampaignTerms, ...]]:
        """Return what the tasks of this one's campaign share, asking for it when it has changed."""
        known = self.described.of(task)
        if known is None:
            rows = yield Query("campaign_by_id", {"campaign": task.campaign})
            if not rows:  # removed just now; nobody misses its tasks
                return ()
            known = self.described.put(rows[0])
        return (known,)


def _settle(calls: Sequence[_Call], verdicts: Verdicts) -> Generator[Query, list[Row], None]:
    """Report in campaigns in which nothing is claimed: one statement, however many there are."""
    if not calls:
        return
    if len(calls) == 1:
        query = calls[0].query()
    else:
        reports = ",".join(report for call in calls for report in call.reports)
        campaigns = array(call.campaign for call in calls for _ in call.reports)
        query = Query("settle_many", {"campaigns": campaigns, "reports": f"[{reports}]"})
    (row,) = yield query
    _tell(verdicts, [place for call in calls for place in call.places], row["acks"])


def _tell(verdicts: Verdicts, places: Sequence[Place], acks: Sequence[str] | None) -> None:
    for place, verdict in zip(places, acks or (), strict=True):
        verdicts.setdefault(place, verdict)  # one that was given before stands


@contextmanager
def told_as_transport() -> Iterator[None]:
    """Turn the errors of the queue into those of a transport."""
    try:
        yield
    except (Unavailable, ServerUnsuitable, SchemaError) as error:
        # An agent can do nothing about these but wait: an upgrade that is under way, say, may have
        # taken a function away for a moment.
        raise TransportFailed(str(error)) from error
    except SessionEnded as error:
        raise SessionLost(str(error)) from error
    except TaskqError as error:
        raise Refused(str(error)) from error


def run(steps: Steps, ask: Callable[[Query], list[Row]]) -> list[Answer | SessionLost]:
    """Take steps by a function that runs a statement; return the answers."""
    try:
        query = next(steps)
        while True:
            query = steps.send(ask(query))
    except StopIteration as end:
        answers: list[Answer | SessionLost] = end.value
        return answers
