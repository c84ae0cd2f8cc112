"""An exchange as the dispatcher takes it: one agent's claim and reports, checked and encoded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from taskq.db.queries import array
from taskq.dispatch.fair_share import Scope
from taskq.dispatch.reports import encoded
from taskq_agent import protocol
from taskq_agent.errors import Refused
from taskq_agent.protocol import Request

_LEASE: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


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


class ExchangeRequest(NamedTuple):
    """One exchange: who claims how much, under which lease id, of what; and what it reports.

    reports: as `settle` takes them, in the order of `fences`.
    """

    session: int
    want: int
    lease: str
    scope: Scope
    fences: Sequence[Fence]
    reports: Sequence[str]


def exchange_request(request: Request, scope: Scope, *, fenced: bool = False) -> ExchangeRequest:
    """Return an exchange to be done; raise `Refused` if no queue could answer it.

    fenced: whether the session may report only on attempts of its own and of sessions that were
    opened with the same token; any other is then `unknown`.
    """
    if not 0 <= request.want <= protocol.MAX_CLAIM:
        raise Refused(f"a claim for {request.want} tasks; 0 to {protocol.MAX_CLAIM} are allowed")
    if request.want and not _LEASE.fullmatch(request.lease):
        raise Refused(f"{request.lease!r:.80} is no lease id; `LeaseIds` draws them")
    if len(scope.without) > protocol.MAX_WITHOUT:
        raise Refused(f"a claim leaves out {protocol.MAX_WITHOUT} campaigns at most")
    if scope.lifetime_s is not None and not math.isfinite(scope.lifetime_s):
        raise Refused(f"an agent cannot live for {scope.lifetime_s} s; leave the lifetime out")
    try:
        reports = tuple(
            _encode(encoded(report, request.session, fenced=fenced)) for report in request.reports
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"a report cannot be written as JSON: {error}") from error
    fences = [Fence(report.campaign, report.task, report.lease) for report in request.reports]
    return ExchangeRequest(request.session, request.want, request.lease, scope, fences, reports)
