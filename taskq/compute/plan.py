"""The campaign of a function: made once, found again by its name, never that of another function.

A result depends on the function, the parameters and the inputs. A campaign is for one choice of
them. A call under its name with another choice is an error, unless the caller says what should
happen to the stored results.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from typing_extensions import Unpack

from taskq.campaign.campaign import Campaign
from taskq.compute.fingerprint import Part
from taskq.compute.functions import Function, python_version
from taskq.compute.pickling import MAX_ARCHIVE_BYTES, function_archive
from taskq.db.access import Queries
from taskq.db.gateway_queries import GatewayQueries
from taskq.db.rows import Row
from taskq.db.stored_spec import spec_body
from taskq.files.blobs import open_blobs
from taskq.model.call_settings import CallSettings
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import (
    Conflict,
    Forbidden,
    FunctionChanged,
    InvalidCampaign,
    LoginForbidden,
    UsageError,
)
from taskq.model.given import names
from taskq.model.handler import Handler
from taskq.model.retry_policy import RetryPolicy
from taskq.model.seed import check_path, derived_key, is_within
from taskq.model.table_checks import known_only
from taskq_agent import typed
from taskq_agent.handlers.resident import ARCHIVE
from taskq_agent.protocol import Input

#: What happens to a campaign whose function, parameters or inputs have changed.
OnChange: TypeAlias = Literal["fail", "continue", "restart"]

SEAL_BYTES: Final = 32
#: Parts of a function that are stored, and those that an error names.
MOST_PARTS: Final = 100
MOST_NAMED: Final = 5


class StarOptions(CallSettings, total=False):
    """The options of `Client.map` but `params`; its docstring says what they mean."""

    inputs: Iterable[str | Path]
    on_change: OnChange
    tasks_per_child: int | None


class MapOptions(StarOptions, total=False):
    """The options of `Client.map`."""

    params: Mapping[str, Any]


def remedy(database: Queries, path: str, kind: str) -> str:
    """Return how to get the right to begin calls at a path; kind: the role or kind of token."""
    if not isinstance(database, GatewayQueries):
        return f"ask for `taskq db grant {kind} LOGIN`"
    paths = sorted(database.value("token_paths"))
    if not any(is_within(path, top) for top in paths):
        return f"take a path at or below {' or '.join(paths)}"
    return f"ask for the token of `taskq token create NAME --kind {kind} --campaign {paths[0]}`"


def call_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for the campaign of calls; raise `TypeError` for an unknown one."""
    try:
        return known_only("", given, sorted(CallSettings.__annotations__))
    except InvalidCampaign as error:
        raise TypeError(f"setting {error}") from None


class FunctionPlan:
    """The campaign for calls of a function, as the caller wants it; see `Client.map`.

    stored: inputs that are in the store already.
    """

    def __init__(
        self,
        database: Queries,
        path: str,
        function: Function,
        *,
        inputs: Iterable[str | Path] = (),
        params: Mapping[str, Any] | None = None,
        on_change: OnChange = "fail",
        tasks_per_child: int | None = None,
        batch: int | None = None,
        stored: Mapping[str, Input] | None = None,
        **settings: Unpack[CallSettings],
    ) -> None:
        if on_change not in get_args(OnChange):
            choices = ", ".join(map(repr, get_args(OnChange)))
            raise UsageError(f"on_change must be one of {choices}, not {on_change!r:.80}")
        self._database = database
        self._path = check_path(path)
        self._function = function
        self._on_change = on_change
        #: What the handler says of the agents' processes.
        self._processes: dict[str, Any] = {"tasks_per_child": tasks_per_child, "batch": batch}
        self._params: dict[str, Any] = {}
        try:
            self._params = {name: typed.encode(value) for name, value in (params or {}).items()}
        except (TypeError, RecursionError) as error:
            raise UsageError(f"params: {error}") from None
        # An exception of a function mostly comes again.
        self._settings: dict[str, Any] = {
            "retry": RetryPolicy(max_attempts=1),
            **call_settings(settings),
        }
        self._blobs = open_blobs(database)
        self._inputs: dict[str, Input] = dict(stored or {})
        for file in map(Path, names("inputs", inputs)):
            if file.name in self._inputs:
                raise UsageError(f"two inputs are called {file.name!r}")
            self._inputs[file.name] = Input(*self._blobs.put(file))

    def prepared(self) -> Campaign:
        """Return the campaign, created or found; its handler is `Campaign.spec().handler`."""
        with self._right():
            row = self._database.row("campaign", path=self._path)
        if row is None:
            try:
                return self._create()
            except Conflict:  # somebody else has just made it
                row = self._database.row("campaign", path=self._path)
                if row is None:  # one above it is archived
                    raise
        return self._found(row or {})

    def _create(self) -> Campaign:
        """Create the campaign, with its inputs; raise `Conflict` if it exists."""
        with self._right():
            spec, inputs = self._described(None)
            body = spec_body(spec, inputs)
            campaign_id = self._database.value("create_campaign", path=self._path, spec=body)
        return Campaign(self._database, campaign_id, self._path)

    def _found(self, row: Row) -> Campaign:
        """Return the existing campaign, if it is for the same choice, or may be changed."""
        campaign = Campaign(self._database, row["campaign_id"], self._path)
        handler = row["settings"]["handler"] or {}
        own = campaign.status(below=False)
        if handler.get("kind") != "function" and own.total:
            raise Conflict(f"{self._path} is not a campaign of a function: take another name")
        differs = self._differences(row)
        if differs and own.total and self._on_change == "fail":
            parts = self._changed_parts(row)
            text = self._explanation(differs, parts, own.done, own.total)
            raise FunctionChanged(text, differs, [part for each in parts.values() for part in each])
        if differs and self._on_change == "restart" and own.total:
            if own.children:
                raise Conflict(
                    f"{self._path} has campaigns below it, which would be removed too: take "
                    "another name"
                )
            campaign.remove()
            return self._create()
        if differs:
            with self._right():
                spec, given = self._described(handler.get("seal"))
                campaign.change(spec, inputs=given)
            if own.failed:
                campaign.retry(below=False)
        elif (wanted := self._with_settings(campaign.spec())) != campaign.spec():
            campaign.change(wanted)
        if row["paused_why"] is not None:
            campaign.resume()  # a caller that asks again has removed the reason
        return campaign

    def _with_settings(self, spec: CampaignSpec) -> CampaignSpec:
        """Return a spec with the settings of this call."""
        handler = spec.handler
        if handler is not None:
            given = {name: value for name, value in self._processes.items() if value is not None}
            handler = replace(handler, **given)
        return replace(spec, handler=handler, **self._settings)

    def _differences(self, row: Row) -> list[str]:
        handler = row["settings"]["handler"] or {}
        inputs = {name: Input(**declared) for name, declared in row["inputs"].items()}
        archive = inputs.pop(ARCHIVE, None)
        same = {
            "function": handler.get("fingerprint") == self._function.fingerprint
            and handler.get("target") == self._function.target,
            # Compared as keys of calls, since Python alone takes True, 1 and 1.0 for equal.
            "params": derived_key(row["settings"]["params"]) == derived_key(self._params),
            "inputs": inputs == self._inputs
            and handler.get("archive") == (archive and archive.digest),
        }
        return [name for name, is_same in same.items() if not is_same]

    def _changed_parts(self, row: Row) -> dict[str, list[str]]:
        """Return what has changed, for the function, params and inputs; empty if unknown."""
        lines = str((row["settings"]["handler"] or {}).get("parts", "")).splitlines()
        before = {name: digest for digest, _, name in (line.partition(" ") for line in lines)}
        now = {name: part.digest for name, part in self._parts().items()}
        params = {name: derived_key({"": param}) for name, param in self._params.items()}
        stored = {
            name: derived_key({"": param}) for name, param in row["settings"]["params"].items()
        }
        inputs = {
            name: Input(**declared) for name, declared in row["inputs"].items() if name != ARCHIVE
        }
        return {
            "function": _differing(before, now) if before else [],
            "params": _differing(stored, params),
            "inputs": _differing(inputs, self._inputs),
        }

    def _parts(self) -> Mapping[str, Part]:
        return dict(islice(self._function.parts.items(), MOST_PARTS))

    def _explanation(
        self, differs: list[str], parts: Mapping[str, list[str]], done: int, total: int
    ) -> str:
        name = self._function.name
        what = {"function": f"another {name}", "params": "other params", "inputs": "other inputs"}
        said = [
            f"{what[difference]} ({', '.join(parts[difference][:MOST_NAMED])})"
            if parts[difference]
            else what[difference]
            for difference in differs
        ]
        kinds = self._parts()
        values = [
            f"{part} (of the type {kinds[part].kind})"
            for part in parts["function"][:MOST_NAMED]
            if part in kinds and kinds[part].kind
        ]
        remedy = (
            f". If {' or '.join(values)} differs in each process, as a time stamp, a random state "
            "or a memo that fills does, make it within the function, give it as an argument, or "
            "keep it in functools.cache"
        )
        return (
            f"the results in {self._path}, {done:,} of {total:,}, are of {' and '.join(said)}. "
            'Take another name; or say on_change="restart" to delete them and begin again, or '
            f'on_change="continue" to keep them and compute the rest{remedy if values else ""}'
        )

    @contextmanager
    def _right(self) -> Iterator[None]:
        """Add to `Forbidden` how to get the right to begin these calls."""
        by_value = self._function.target is None
        try:
            yield
        except LoginForbidden as error:  # which says how to get the right
            if not by_value:
                raise
            name = self._function.name
            text = f"{error}; or move {name} into a module that agents can import"
            raise LoginForbidden(text) from error
        except Forbidden as error:
            how = remedy(self._database, self._path, "pickler" if by_value else "submitter")
            if not by_value:
                raise Forbidden(f"{error}: {how}") from error
            raise Forbidden(
                f"{error}, and {self._function.name} is not in a module that agents can import: "
                f"move it into one, or {how}"
            ) from error

    def _described(self, seal: str | None) -> tuple[CampaignSpec, dict[str, Input]]:
        """Return the spec and all inputs; store a function that goes by value first."""
        handler, inputs = self._handler(seal)
        spec = CampaignSpec(self._path, handler=handler, params=self._params, **self._settings)
        return spec, self._inputs | inputs

    def _handler(self, seal: str | None) -> tuple[Handler, dict[str, Input]]:
        function = self._function
        plain: dict[str, Any] = {
            "name": function.name,
            "fingerprint": function.fingerprint,
            **self._processes,
            "parts": "\n".join(f"{part.digest} {name}" for name, part in self._parts().items()),
        }
        if function.target is not None:
            return Handler("function", target=function.target, **plain), {}
        data = function_archive(function.name, function.function)
        archive = Input(*self._blobs.put([data], most=2 * MAX_ARCHIVE_BYTES))
        handler = Handler(
            "function",
            archive=archive.digest,
            python=python_version(),
            seal=seal or secrets.token_hex(SEAL_BYTES),
            **plain,
        )
        return handler, {ARCHIVE: archive}


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names that have other values, or are in one only."""
    return [name for name in {**now, **before} if before.get(name) != now.get(name)]
