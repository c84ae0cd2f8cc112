"""The OpenAPI document, made from the endpoints and the types of their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from taskq.model.version import VERSION
from taskq_agent.protocol import ANSWER_HEADER, PROTOCOL

VALUES: Final = {
    "application/json": {
        "schema": {"type": "object", "description": "The parameters of the statement."}
    }
}
LINES: Final = {
    "application/jsonl": {
        "schema": {"description": "The columns, then an array for each row; by gzip."}
    }
}
BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}
ZIP: Final = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}
_OURS: Final = {
    "description": "Every answer of a gateway has it; what lacks it comes from elsewhere.",
    "required": True,
    "schema": {"const": str(PROTOCOL)},
}
_TOKENS: Final = {
    "site": "A site's token, from `taskq token create --kind site`.",
    "session": "The token in the answer to POST /v1/sessions.",
    "manager": "A manager's token, from `taskq token create --kind manager`.",
}

_REF: Final = "#/components/schemas/{name}"


class HealthMessage(Struct):
    """The health of the gateway."""

    status: str


class Error(Struct):
    """An error: `code` for programs, `message` for people.

    kind, details: in answers to managers' statements, the exception of taskq's library.
    """

    code: str
    message: str
    kind: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET


class Failed(Struct):
    """An answer that is an error."""

    error: Error


def _parameter(name: str, place: str, pattern: str, text: str) -> dict[str, Any]:
    required = {"required": True} if place == "path" else {}
    schema = {"type": "string", "pattern": pattern}
    return {"name": name, "in": place, **required, "description": text, "schema": schema}


DIGEST: Final = _parameter("digest", "path", "^[0-9a-f]{64}$", "SHA-256 in lower-case hex.")
RANGE: Final = _parameter(
    "Range",
    "header",
    "^bytes=[0-9]{1,12}-[0-9]{0,12}$",
    "`bytes=N-`: from that place on; `bytes=N-M`: to that one, which is included.",
)
QUERY: Final = _parameter(
    "query", "path", "^[a-z_]{1,60}$", "The name of a statement; docs/gateway.md lists them."
)
REST: Final = _parameter(
    "rest",
    "query",
    "^[a-z_]{1,60}$",
    "The parameter that follows after the first line of the body, as it is.",
)
WAIT: Final = _parameter(
    "wait_s",
    "query",
    "^[0-9]{1,4}([.][0-9]{1,3})?$",
    "Seconds to wait for the end of one of the tasks, where the statement offers that.",
)


@dataclass(frozen=True)
class Endpoint:
    """A request that the gateway serves.

    needs: the kind of token; empty if none. takes, gives: the types of the bodies; if a body is not
    JSON, its content as in the document; None if there is no body. optional: the body may be
    missing. in_parts: a request may ask for a part of the answer.
    """

    method: str
    path: str
    name: str
    summary: str
    needs: str = ""
    takes: Any = None
    gives: Any = None
    parameters: Sequence[dict[str, Any]] = ()
    optional: bool = False
    in_parts: bool = False


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the document."""
    bodies = [body for endpoint in endpoints for body in (endpoint.takes, endpoint.gives)]
    types = [*dict.fromkeys(body for body in bodies if isinstance(body, type)), Failed]
    refs, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    schema = dict(zip(types, refs, strict=True))

    def content(body: Any) -> Any:
        return _json(schema[body]) if isinstance(body, type) else body

    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        refused = _json(schema[Failed])
        responses: dict[str, Any] = {
            "4XX": {"description": "Refused.", "content": refused},
            "503": {"description": "Not now; `Retry-After` says when.", "content": refused},
        }
        if endpoint.takes is VALUES:
            responses["504"] = {"description": "It takes too long.", "content": refused}
        if endpoint.gives is None:
            responses["204"] = {"description": "Done."}
        else:
            responses["200"] = {"description": "Done.", "content": content(endpoint.gives)}
        if endpoint.in_parts:
            part = {"description": "From that place on.", "content": content(endpoint.gives)}
            responses["206"] = part
        for answer in responses.values():
            answer["headers"] = {ANSWER_HEADER: _OURS}
        operation: dict[str, Any] = {"summary": endpoint.summary, "responses": responses}
        if endpoint.takes is not None:
            body = {"required": not endpoint.optional, "content": content(endpoint.takes)}
            operation["requestBody"] = body
        if endpoint.parameters:
            operation["parameters"] = list(endpoint.parameters)
        if endpoint.needs:
            operation["security"] = [{endpoint.needs: []}]
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "taskq gateway",
            "version": VERSION,
            "description": "Agents pull tasks and report; every request may be repeated as it is.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer", "description": text}
                for name, text in _TOKENS.items()
            },
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
