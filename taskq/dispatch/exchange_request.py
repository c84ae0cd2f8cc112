"""What agents send when they come and when they claim or report, checked and encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from taskq.db.catalogue import array
from taskq.dispatch.fair_share import Scope
from taskq_agent.errors import Refused
from taskq_agent.json_encoder import json_encoder
from taskq_agent.protocol import Hello, Report, Request, Task
from taskq_agent.wire import members

#: Reports encoded as one at most, so that a large exchange can be done in parts.
MOST_ENCODED: Final = 50

_campaign = attrgetter("campaign")
_encode = json_encoder(separators=(",", ":"))


class Fence(NamedTuple):
    """The identity of an attempt: a report or heartbeat counts only if all three agree.

    `Held` of the agents' protocol has the same fields. A part of a
    message must be a JSON object with named members, and a tuple would become an array. Here the
    fence is a key and an argument, thousands of times a second.
    """

    campaign: int
    task: int
    lease: str


def fence_arrays(fences: Sequence[Fence | Task]) -> dict[str, str]:
    """Return fences as the three array parameters of the server-side functions."""
    return {
        "campaigns": array(fence.campaign for fence in fences),
        "tasks": array(fence.task for fence in fences),
        "leases": array(fence.lease for fence in fences),
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
    """Encode a request; raise `Refused` if a report cannot be written as JSON.

    Its limits are not checked here. An agent keeps them, and the server refuses what is beyond
    them: a check of each exchange would take as long as the rest.
    """
    try:
        reports = [
            _encoded(campaign, some, request.session)
            for campaign, several in groupby(request.reports, _campaign)
            for some in _chunks(list(several))
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"a report cannot be written as JSON: {error}") from error
    fences = [Fence(report.campaign, report.task, report.lease) for report in request.reports]
    return ExchangeRequest(request.session, request.want, request.lease, scope, fences, reports)


def _chunks(reports: Sequence[Report]) -> Iterator[Sequence[Report]]:
    for first in range(0, len(reports), MOST_ENCODED):
        yield reports[first : first + MOST_ENCODED]


def _encoded(campaign: int, reports: Sequence[Report], session: int) -> EncodedReports:
    written = [members(report) for report in reports]
    for report in written:
        report["by"] = session
    return EncodedReports(campaign, len(reports), _encode(written)[1:-1])


def session_values(hello: Hello, lease_s: float) -> dict[str, Any]:
    """Return the parameters that open a session, or find the one that the hello's key has opened.

    lease_s: silence after which the agent's tasks are handed out again, 1 to 86400 s.
    """
    values = vars(hello) | {"offers": list(hello.offers), "lease_s": lease_s}
    del values["unfit"]  # such an agent asks for none
    return values | {"path": values.pop("campaign"), "agent": values.pop("name")}
