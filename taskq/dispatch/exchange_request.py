"""What agents send when they come and when they claim or report, checked and encoded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from taskq.db.catalogue import array
from taskq.dispatch.fair_share import Scope
from taskq_agent import protocol
from taskq_agent.errors import Refused
from taskq_agent.protocol import FAILED, RELEASED, Hello, Report, Request, Task

_LEASE: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

#: Reports encoded as one at most, so that a large exchange can be done in parts.
MOST_ENCODED: Final = 50
#: Members of a report that are left out if they are None.
_OPTIONAL: Final = ("result", "error_class", "error", "exit_code", "tail")

_campaign = attrgetter("campaign")
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


class Fence(NamedTuple):
    """The identity of an attempt: a report or heartbeat counts only if all three agree.

    `Held` of the agents' protocol has the same fields, and `HeldMessage` checks it. A part of a
    message must be a JSON object with named members, and a tuple would become an array. Here the
    fence is a key and an argument, thousands of times a second.
    """

    campaign: int
    task: int
    lease: str


def fence_arrays(fences: Sequence[Fence | Task]) -> dict[str, str]:
    """Return fences as the three array parameters of the server-side functions."""
    return {
        "campaigns": array(one.campaign for one in fences),
        "tasks": array(one.task for one in fences),
        "leases": array(one.lease for one in fences),
    }


class EncodedReports(NamedTuple):
    """Consecutive reports on one campaign: JSON objects for `settle`, joined by commas."""

    campaign: int
    number: int
    text: str


class ExchangeRequest(NamedTuple):
    """One exchange: a session's claim for up to `want` tasks of a scope, and its reports.

    lease: the lease id to claim under. reports: in the order of `fences`.
    """

    session: int
    want: int
    lease: str
    scope: Scope
    fences: Sequence[Fence]
    reports: Sequence[EncodedReports]


def exchange_request(request: Request, scope: Scope) -> ExchangeRequest:
    """Check and encode a request; raise `Refused` if no server could answer it."""
    if not 0 <= request.want <= protocol.MAX_CLAIM:
        raise Refused(f"a claim for {request.want} tasks; 0 to {protocol.MAX_CLAIM} are allowed")
    if request.want:
        check_leases([request.lease])
    if len(scope.without) > protocol.MAX_WITHOUT:
        raise Refused(f"a claim leaves out {protocol.MAX_WITHOUT} campaigns at most")
    if scope.lifetime_s is not None and not math.isfinite(scope.lifetime_s):
        raise Refused(f"an agent cannot live for {scope.lifetime_s} s; leave the lifetime out")
    try:
        reports = [
            _encoded(campaign, some, request.session)
            for campaign, several in groupby(request.reports, _campaign)
            for some in _chunks(list(several))
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"a report cannot be written as JSON: {error}") from error
    fences = [Fence(one.campaign, one.task, one.lease) for one in request.reports]
    return ExchangeRequest(request.session, request.want, request.lease, scope, fences, reports)


def check_leases(leases: Iterable[str]) -> None:
    """Raise `Refused` unless all are lease ids."""
    for lease in leases:
        if not _LEASE.fullmatch(lease):
            raise Refused(f"{lease!r:.80} is not a lease id; `LeaseIds` draws them")


def _chunks(reports: Sequence[Report]) -> Iterator[Sequence[Report]]:
    for first in range(0, len(reports), MOST_ENCODED):
        yield reports[first : first + MOST_ENCODED]


def _encoded(campaign: int, reports: Sequence[Report], session: int) -> EncodedReports:
    # All in one call, since making an encoder takes as long as writing four reports.
    text = _encode([_members(report, session) for report in reports])
    return EncodedReports(campaign, len(reports), text[1:-1])


def _members(report: Report, session: int) -> dict[str, Any]:
    """Return a report as the server-side functions take it, without members that have defaults."""
    body = {
        "task": report.task,
        "lease": report.lease,
        "outcome": report.outcome,
        "by": session,
    }
    for name in _OPTIONAL:
        value = getattr(report, name)
        if value is not None:
            body[name] = value
    if report.phases:
        body["phases"] = report.phases
    if report.outcome == FAILED:
        body["retry"] = report.retry
    elif report.outcome == RELEASED:
        body["started"] = report.started
    if report.refused:
        body["refused"] = True
    return body


def session_values(hello: Hello, lease_s: float) -> dict[str, Any]:
    """Return the parameters that open a session, or find the one that the hello's key has opened.

    lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
    """
    values = vars(hello) | {"offers": list(hello.offers), "lease_s": lease_s}
    return values | {"path": values.pop("campaign"), "agent": values.pop("name")}
