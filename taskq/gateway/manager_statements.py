"""Which statements managers may run over a gateway, with which parameters, about which campaigns.

The header of a statement says whether it is offered (`db.catalogue`). Its parameters name the
campaigns that it is about: `path` and `scope` by path, `campaign` by id.
"""

from __future__ import annotations

from typing import Any, Final

from taskq.db.catalogue import all_statements
from taskq.db.headers import Offer
from taskq.db.stored_spec import check_handler_of
from taskq.gateway.http.errors import BadRequest
from taskq.model.errors import NotOverGateway
from taskq.model.seed import check_path

_PATHS: Final = frozenset({"path", "scope"})
_COUNTS: Final = frozenset({"ended", "limit", "most", "named", "scan"})
_WHOLE_NUMBERS: Final = frozenset({"smallint", "integer", "bigint"})


def offered(name: str) -> Offer:
    """Return how a statement is offered; raise `NotOverGateway` if it is not."""
    known = all_statements().get(name)
    if known is None or known.offer is None:
        raise NotOverGateway(name if name.isidentifier() and len(name) <= 60 else "this")  # noqa: PLR2004
    return known.offer


def checked(name: str, values: dict[str, Any]) -> None:
    """Raise `BadRequest` or `InvalidPath` unless the values fit the parameters of a statement."""
    parameters = all_statements()[name].parameters
    wanted = parameters.keys()
    if values.keys() != wanted:
        raise BadRequest(f"{name} takes {', '.join(sorted(wanted)) or 'nothing'}, by these names")
    for parameter in _PATHS & wanted:
        if values[parameter] is not None or not (offered(name).whole or offered(name).own):
            check_path(str(values[parameter]))
    for parameter in _COUNTS & wanted:
        if type(values[parameter]) is not int or not 0 <= values[parameter] <= offered(name).most:
            raise BadRequest(f"{parameter} must be a number from 0 to {offered(name).most}")
    if "campaign" in wanted and type(values["campaign"]) is not int:
        raise BadRequest("campaign must be the id of one")
    if isinstance(values.get("spec"), (str, bytes)):
        check_handler_of(values["spec"])
    for parameter, kind in parameters.items():
        # PostgreSQL would round it.
        if kind in _WHOLE_NUMBERS and isinstance(values[parameter], (bool, float)):
            raise BadRequest(f"{parameter} must be a whole number")


def about(name: str, values: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Return the campaigns that a statement is about: by paths, and by ids."""
    if offered(name).whole:
        return ["/"], []
    named = [values[path] for path in sorted(_PATHS & values.keys())]
    paths = [str(path) for path in named if path is not None or not offered(name).own]
    return paths, [values["campaign"]] if "campaign" in values else []
