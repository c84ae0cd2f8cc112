"""Incoming HTTP messages: all input is checked here, once.

Requests are decoded into these types only, made from the messages as agents have them, with their
limits (`message_types`). A refusal names the place and the reason. Unknown members are ignored, so
that a newer agent can speak with an older gateway. The OpenAPI document is made from the same
types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta

from taskq.dispatch.exchange_request import EncodedReports
from taskq.gateway.http.errors import BadRequest
from taskq.gateway.message_types import message_type
from taskq_agent import protocol, task_messages
from taskq_agent.json_limits import depth_fault, json_fault

MAX_DEPTH: Final = 100
MAX_EXCHANGE_BYTES: Final = 8 << 20
MAX_BODY_BYTES: Final = 1 << 20
MAX_HELLO_BYTES: Final = 1 << 16

#: A value of a parameter of a statement; see `manager_bodies`.
Value = bool | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float | str | None
Values = dict[str, Value | list[int | str]]

Message = TypeVar("Message")

encode: Final = msgspec.json.Encoder().encode

_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
# Escapes of what jsonb cannot hold: NUL and surrogates. A match may be a false alarm.
_SUSPECT: Final = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]")
_STORABLE_ESCAPES: Final = re.compile(
    rb"\\(?:[^u]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u(?!0000|[dD][89a-fA-F])....)", re.DOTALL
)

if TYPE_CHECKING:
    HelloMessage = protocol.Hello
    Exchange = protocol.Request
    HeartbeatMessage = task_messages.UpdatingHeartbeat
    CheckpointMessage = task_messages.CheckpointRequest
    SessionEndMessage = protocol.SessionEnd
else:  # with the same members, but for the session
    HelloMessage = message_type(protocol.Hello)
    Exchange = message_type(protocol.Request)
    HeartbeatMessage = message_type(task_messages.UpdatingHeartbeat)
    CheckpointMessage = message_type(task_messages.CheckpointRequest)
    SessionEndMessage = message_type(protocol.SessionEnd)


def _reader(kind: type[Message], *, flat: bool = False) -> Callable[[bytes], Message]:
    """Return a function that decodes and checks one kind of message, and raises `BadRequest`.

    flat: other code checks the nested values.
    """
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> Message:
        try:
            message = decode(body)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadRequest(str(error)) from None
        # NUL and lone surrogates; the quick search may be a false alarm.
        if _SUSPECT.search(body) is not None or b"\x00" in body:
            _check_storable(body)
        if not flat and (fault := depth_fault(body, MAX_DEPTH)) is not None:
            raise BadRequest(f"a body {fault}")
        return message

    return read


_read_hello: Final = _reader(HelloMessage)
# flat: many reports, or many attempts in a heartbeat, may have more brackets than `MAX_DEPTH`.
read_exchange: Final = _reader(Exchange, flat=True)
read_heartbeat: Final = _reader(HeartbeatMessage, flat=True)
read_checkpoint: Final = _reader(CheckpointMessage)
read_farewell: Final = _reader(SessionEndMessage)
# PostgreSQL itself refuses what it cannot store.
read_values: Final = _reader(Values, flat=True)


def read_hello(body: bytes) -> protocol.Hello:
    """Return a hello as agents with a direct transport make it; raise `BadRequest`."""
    message: Any = _read_hello(body)
    return protocol.Hello(**msgspec.structs.asdict(message))


def encoded_report(report: protocol.Report, session: int) -> EncodedReports:
    """Return a report as the server-side functions take it; raise `BadRequest`."""
    raw: Any = report.result
    if raw is not UNSET:
        _check_result(report, bytes(raw))
    try:
        text = _encoded(report, session)
    except UnicodeDecodeError as error:
        raise BadRequest(f"a result is not valid Unicode: {error}") from None
    return EncodedReports(report.campaign, 1, text)


def heartbeat_arguments(heartbeat: HeartbeatMessage, session: int) -> tuple[str, int, str, str]:
    """Return a heartbeat as `HeartbeatBatcher.send` takes it.

    That is its text, the number of attempts, its updates and its stamp.
    """
    updates, heartbeat.updates = heartbeat.updates, ()
    parts = ",".join(_encoded(update, session) for update in updates) if updates else ""
    named = len(heartbeat.held) + len(heartbeat.claims) + len(updates)
    stamp, heartbeat.stamp = heartbeat.stamp, ""
    return _encoded(heartbeat, session), named, parts, stamp


def _encoded(message: Any, session: int) -> str:
    """Return a message with the session that its token stands for, whatever it says itself."""
    message.session = session
    return encode(message).decode()


def _check_result(report: protocol.Report, raw: bytes) -> None:
    if raw == b"null":
        report.result = UNSET  # type: ignore[assignment]  # not the JSON value null
    elif not raw.startswith(b"{"):
        raise BadRequest("a result must be an object")
    elif (fault := json_fault(raw, most=protocol.MAX_RESULT_BYTES, deep=MAX_DEPTH)) is not None:
        raise BadRequest(f"a result {fault}; upload a large one as a blob")


def _check_storable(body: bytes) -> None:
    """Refuse NUL and lone surrogates in any string, without decoding, which takes longer."""
    if b"\x00" in body or b"\\" in _STORABLE_ESCAPES.sub(b"", body):
        raise BadRequest("a NUL character or half a surrogate pair, which no database can store")
