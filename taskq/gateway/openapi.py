"""The OpenAPI document, made of the types that requests are decoded into."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from taskq.gateway import messages
from taskq.version import VERSION
from taskq.views import Status
from taskq_agent import protocol

_REF: Final = "#/components/schemas/{name}"


class CampaignList(Struct):
    """A campaign and those directly below it."""

    campaigns: list[Status]


class Changed(Struct):
    """Tells whether the request has changed anything."""

    changed: bool


class Added(Struct):
    """How many tasks are new; how many were passed over or kept under numbered keys."""

    added: int
    conflicts: int


class HealthMessage(Struct):
    """The health of the gateway."""

    status: str


class Error(Struct):
    """An error: `code` for programs, `message` for people."""

    code: str
    message: str


class Failed(Struct):
    """An answer that is an error."""

    error: Error


_TYPES: Final = (
    messages.HelloMessage,
    messages.Exchange,
    messages.HeartbeatMessage,
    messages.SessionEndMessage,
    messages.StateChange,
    messages.NewTasks,
    protocol.Welcome,
    protocol.Answer,
    protocol.HeartbeatAnswer,
    CampaignList,
    Changed,
    Added,
    HealthMessage,
    Failed,
)

_DIGEST: Final = {
    "name": "digest",
    "in": "path",
    "required": True,
    "description": "SHA-256 in lower-case hex.",
    "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
_RANGE: Final = {
    "name": "Range",
    "in": "header",
    "description": "`bytes=N-`: from that place on.",
    "schema": {"type": "string", "pattern": "^bytes=[0-9]{1,12}-$"},
}
_PATH: Final = {
    "name": "path",
    "in": "query",
    "description": "The campaign; default: the first that the token is for.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 1000},
}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@cache
def document() -> dict[str, Any]:
    """Return the document."""
    refs, schemas = msgspec.json.schema_components(_TYPES, ref_template=_REF)
    schema = dict(zip(_TYPES, refs, strict=True))

    def operation(
        summary: str,
        *,
        needs: str = "",
        takes: object = None,
        gives: object = None,
        parameters: tuple[dict[str, Any], ...] = (),
    ) -> dict[str, Any]:
        operation_object: dict[str, Any] = {"summary": summary, "responses": {}}
        responses = operation_object["responses"]
        if gives is None:
            responses["204"] = {"description": "Done."}
        elif isinstance(gives, type):
            responses["200"] = {"description": "Done.", "content": _json(schema[gives])}
        else:
            responses["200"] = {"description": "Done.", "content": gives}
        if takes is not None:
            content = _json(schema[takes]) if isinstance(takes, type) else takes
            operation_object["requestBody"] = {"required": True, "content": content}
        if parameters:
            operation_object["parameters"] = list(parameters)
        if needs:
            operation_object["security"] = [{needs: []}]
        responses["4XX"] = {"description": "Refused.", "content": _json(schema[Failed])}
        responses["503"] = {
            "description": "Not now; `Retry-After` says when.",
            "content": _json(schema[Failed]),
        }
        return operation_object

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "taskq gateway",
            "version": VERSION,
            "description": "Agents pull tasks and report; every request may be repeated as it is.",
        },
        "paths": {
            "/v1/sessions": {
                "post": operation(
                    "Open an agent's session.",
                    needs="site",
                    takes=messages.HelloMessage,
                    gives=protocol.Welcome,
                )
            },
            "/v1/session": {
                "delete": _optional(
                    operation(
                        "End the session, and perhaps say why.",
                        needs="session",
                        takes=messages.SessionEndMessage,
                    )
                )
            },
            "/v1/exchange": {
                "post": operation(
                    "Report ended attempts, claim tasks.",
                    needs="session",
                    takes=messages.Exchange,
                    gives=protocol.Answer,
                )
            },
            "/v1/beat": {
                "post": operation(
                    "Keep the session alive, and say what it holds.",
                    needs="session",
                    takes=messages.HeartbeatMessage,
                    gives=protocol.HeartbeatAnswer,
                )
            },
            "/v1/blobs/{digest}": {
                "get": _partial(
                    operation(
                        "Fetch an input, from a place on.",
                        needs="session",
                        gives=_BYTES,
                        parameters=(_DIGEST, _RANGE),
                    )
                ),
                "put": operation(
                    "Store a large result.", needs="session", takes=_BYTES, parameters=(_DIGEST,)
                ),
            },
            "/v1/campaigns": {
                "get": operation(
                    "Count the tasks of a campaign and of those below it.",
                    needs="manager",
                    gives=CampaignList,
                    parameters=(_PATH,),
                )
            },
            "/v1/campaigns/state": {
                "post": operation(
                    "Open, pause or cancel a campaign.",
                    needs="manager",
                    takes=messages.StateChange,
                    gives=Changed,
                )
            },
            "/v1/tasks": {
                "post": operation(
                    "Add tasks.", needs="manager", takes=messages.NewTasks, gives=Added
                )
            },
            "/metrics": {
                "get": operation(
                    "Metrics for Prometheus.",
                    needs="manager",
                    gives={"text/plain": {"schema": {"type": "string"}}},
                )
            },
            "/healthz": {"get": operation("Say that the process lives.", gives=HealthMessage)},
            "/readyz": {"get": operation("Say whether it can serve.", gives=HealthMessage)},
            "/taskq-agent.pyz": {
                "get": operation(
                    "Fetch the agent.",
                    gives={"application/zip": {"schema": {"type": "string", "format": "binary"}}},
                )
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer", "description": text}
                for name, text in (
                    ("site", "A site's token, from `taskq token create --site`."),
                    ("session", "The token in the answer to POST /v1/sessions."),
                    ("manager", "A manager's token, from `taskq token create --manager`."),
                )
            },
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _optional(operation: dict[str, Any]) -> dict[str, Any]:
    operation["requestBody"]["required"] = False
    return operation


def _partial(operation: dict[str, Any]) -> dict[str, Any]:
    operation["responses"]["206"] = {"description": "From that place on.", "content": _BYTES}
    return operation
