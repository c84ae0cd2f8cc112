"""Statements that managers may run over a gateway: a closed list of names, no SQL.

What a statement is about is said by its parameters: `path` and `scope` name campaigns by paths,
`campaign` by id. `permit` checks them against the token in PostgreSQL; those of `WHOLE` are about
the whole queue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from taskq.db.queries import statement
from taskq.errors import NotOverGateway
from taskq.gateway.messages import BadRequest
from taskq.spec.model import check_path
from taskq.tokens import Kind

#: Tasks or attempts that may be asked for at a time; and agents or hosts, which are fewer.
MOST_TASKS: Final = 20_000
MOST_AGENTS: Final = 10_000_000
#: Jobs of a pilot: those that may be live, and those that are kept for a month.
MOST_JOBS: Final = 1_000_000
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")
_PATHS: Final = frozenset({"path", "scope"})
_COUNTS: Final = frozenset({"ended", "limit", "most", "named", "scan"})


@dataclass(frozen=True, slots=True)
class Offered:
    """How a statement is offered.

    kind: the least kind of token for it. paged: whether an answer may have fewer rows than asked
    for, since who asks goes on after the last one. quiet: whether it has no rows, instead of being
    refused, about campaigns that the token is not for. instead: the statement for tokens of a
    lesser kind than a submitter's. most: the largest number that may be asked for. timeout_s:
    seconds that it may take. hint: what makes it faster.
    """

    kind: Kind = "manager"
    paged: bool = False
    quiet: bool = False
    instead: str | None = None
    most: int = MOST_TASKS
    timeout_s: float = 30.0
    hint: str = "ask for less, or connect to PostgreSQL"


_LOOK: Final = Offered()
_PAGES: Final = Offered(paged=True)
_QUIET: Final = Offered(quiet=True)
_AGENTS: Final = Offered(most=MOST_AGENTS)
_JOBS: Final = Offered(most=MOST_JOBS)
_SUBMIT: Final = Offered("submitter")
_FILTER: Final = Offered(
    paged=True,
    timeout_s=10.0,
    hint="compare fewer values with large arrays, look for fewer pieces of text, or connect to "
    "PostgreSQL",
)

OFFERED: Final[Mapping[str, Offered]] = {
    "campaign": Offered(instead="campaign_unsealed"),
    **dict.fromkeys(("counts", "closed_by", "left_over", "refusals", "brake"), _LOOK),
    **dict.fromkeys(("hedges", "last_due", "paces", "scopes", "trend", "usual_run"), _LOOK),
    **dict.fromkeys(("agents", "left_agents", "places"), _AGENTS),
    **dict.fromkeys(("tasks", "results", "failures"), _PAGES),
    "find_tasks": _FILTER,
    **dict.fromkeys(
        ("task_ids", "results_of", "done_within", "outputs_of", "best_results", "attempts"), _LOOK
    ),
    **dict.fromkeys(
        ("failure_classes", "failure_causes", "failing_tasks", "result_indexes", "unsuccessful"),
        _LOOK,
    ),
    **dict.fromkeys(("last_attempts", "latest_attempts", "latest_failure"), _LOOK),
    **dict.fromkeys(("best_of_groups", "explain_upkeep", "retriable"), _LOOK),
    **dict.fromkeys(("explain_agents", "explain_campaigns", "explain_closed"), _LOOK),
    **dict.fromkeys(("owners", "sharing"), _LOOK),
    **dict.fromkeys(("explain_due", "explain_refusals"), _LOOK),
    **dict.fromkeys(("explain_others", "explain_tokens", "bans"), _QUIET),
    **dict.fromkeys(("gateways", "server_load"), _QUIET),
    "follow": _LOOK,
    **dict.fromkeys(("set_status", "cancel", "cancel_unbegun"), _LOOK),
    **dict.fromkeys(("retry", "prioritise"), _LOOK),
    **dict.fromkeys(("submit", "seed_tasks"), _LOOK),
    # What the loop of pilots asks and says; to store one takes a login, since it says what the
    # loop runs. Which pilots a token is for, the statements see to themselves.
    **dict.fromkeys(("pilots", "pilot_demand", "agent_slots", "set_pilot_status"), _LOOK),
    **dict.fromkeys(("hold_pilot", "note_pilot"), _LOOK),
    **dict.fromkeys(("pilot_jobs", "begin_pilot_job"), _JOBS),
    **dict.fromkeys(("create_campaign", "change_campaign"), _SUBMIT),
    **dict.fromkeys(("add_input", "remove_input"), _SUBMIT),
    **dict.fromkeys(("remove_tasks", "remove_campaign"), _SUBMIT),
    **dict.fromkeys(("index_results", "fill_index", "drop_index"), _SUBMIT),
}
#: About the whole queue, by names of others: for tokens that are for all of it.
WHOLE: Final = frozenset({"explain_tokens", "bans", "gateways", "server_load"})
#: After these there may be tasks for agents that wait.
WAKING: Final = frozenset({"set_status", "retry", "submit", "seed_tasks"})


def offered(name: str) -> Offered:
    """Return how a statement is offered; raise `NotOverGateway` if it is not."""
    known = OFFERED.get(name)
    if known is None:
        raise NotOverGateway(name if name.isidentifier() and len(name) <= 60 else "this")  # noqa: PLR2004
    return known


def checked(name: str, values: dict[str, Any]) -> None:
    """Raise `BadRequest`, or `InvalidPath`, unless these are the parameters of a statement."""
    wanted = _parameters(name)
    if values.keys() != wanted:
        raise BadRequest(f"{name} takes {', '.join(sorted(wanted)) or 'nothing'}, by these names")
    for one in _PATHS & wanted:
        check_path(str(values[one]))
    for one in _COUNTS & wanted:
        if type(values[one]) is not int or not 0 <= values[one] <= offered(name).most:
            raise BadRequest(f"{one} must be a number from 0 to {offered(name).most}")
    if "campaign" in wanted and type(values["campaign"]) is not int:
        raise BadRequest("campaign must be the id of one")


def about(name: str, values: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Return the campaigns that a statement is about: by paths, and by ids."""
    if name in WHOLE:
        return ["/"], []
    paths = [str(values[one]) for one in sorted(_PATHS & values.keys())]
    return paths, [values["campaign"]] if "campaign" in values else []


@cache
def _parameters(name: str) -> frozenset[str]:
    return frozenset(_PARAMETER.findall(statement(name)))
