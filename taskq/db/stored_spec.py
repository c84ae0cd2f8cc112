"""Campaign specifications in the form that the server-side functions take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import InvalidCampaign
from taskq.model.handler import Handler
from taskq.model.words import beginning
from taskq_agent.handlers.definition import check_handler
from taskq_agent.protocol import Input

_MOST_BYTES: Final = 1 << 20
_NAMED: Final = 5
_SHOWN_CHARS: Final = 80


def spec_body(spec: CampaignSpec, inputs: Mapping[str, Input] | None = None) -> str:
    """Return a spec as the JSON text that the server-side functions take.

    inputs: all inputs of the campaign; None keeps those that it has.
    Raise `InvalidCampaign` if its handler could run no task with its parameters.
    """
    if spec.handler is not None:
        try:
            check_handler(spec.handler.to_json(), spec.params)
        except ValueError as error:
            raise InvalidCampaign(str(error)) from None
    body = spec.to_settings()
    if inputs is not None:
        body["inputs"] = {name: asdict(declared) for name, declared in inputs.items()}
    return json.dumps(body)


def check_handler_of(spec: str | bytes) -> None:
    """Raise `InvalidCampaign` if the handler in a spec, as `spec_body` makes it, is unknown here.

    PostgreSQL refuses a spec that is no JSON object.
    """
    if len(spec) > _MOST_BYTES:
        raise InvalidCampaign(f"settings of {len(spec)} bytes; {_MOST_BYTES} at most")
    try:
        body = json.loads(spec)
    except (ValueError, RecursionError):
        return
    if not isinstance(body, dict) or body.get("handler") is None:
        return
    handler = Handler.from_json(body["handler"])
    params = body.get("params")
    try:
        check_handler(handler.to_json(), params if isinstance(params, dict) else {})
    except ValueError as error:
        raise InvalidCampaign(f"handler: {error}") from None


def described_changes(old: CampaignSpec, new: CampaignSpec) -> str:
    """Return which settings differ, such as `weight 1.0 -> 2.0`, for people."""
    were, are = (dict(_settings("", spec.to_json())) for spec in (old, new))
    names = [name for name in {**were, **are} if were.get(name) != are.get(name)]
    shown = [
        f"{name} {_value(were.get(name))} -> {_value(are.get(name))}" for name in names[:_NAMED]
    ]
    more = len(names) - len(shown)
    return "; ".join(shown) + (f"; and {more:,} more" if more else "")


def _settings(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the settings below a name, each by its own name."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _settings(f"{name}.{key}" if name else f"{key}", inner)
    elif value != {}:
        yield name, value


def _value(value: object) -> str:
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return beginning(text, _SHOWN_CHARS)
