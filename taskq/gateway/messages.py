"""Incoming HTTP messages and their limits: all input is checked here, once.

Requests are decoded into these types only. A refusal names the place and the reason. Unknown
members are ignored, so that a newer agent can speak with an older gateway. The OpenAPI document is
made from the same types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from taskq.dispatch import heartbeats
from taskq.dispatch.exchange_request import EncodedReports
from taskq.model.seed import MAX_PATH_CHARS
from taskq_agent import protocol
from taskq_agent.task_messages import MAX_NOTE_CHARS, MAX_UPDATES
from taskq_agent.text import clean, depth_fault, json_fault
from taskq_agent.transport import MAX_BLOB_BYTES

MAX_DEPTH: Final = 100
MAX_EXCHANGE_BYTES: Final = 8 << 20
MAX_BODY_BYTES: Final = 1 << 20
MAX_HELLO_BYTES: Final = 1 << 16
LONGEST_WAIT_S: Final = 50.0
MAX_NAME_CHARS: Final = 200
MAX_RELEASE_CHARS: Final = 50
MAX_SLOTS: Final = 100_000
MAX_OFFERS: Final = 100
MAX_PHASES: Final = 50
MAX_PENDING: Final = 100
MAX_TALLY: Final = 64

_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
# Escapes of what jsonb cannot hold: NUL and surrogates. A match may be a false alarm.
_SUSPECT: Final = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]")
_STORABLE_ESCAPES: Final = re.compile(
    rb"\\(?:[^u]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u(?!0000|[dD][89a-fA-F])....)", re.DOTALL
)
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Lease = Annotated[str, Meta(pattern=_UUID, max_length=36)]  # `$` lets a line feed pass
MaybeLease = Annotated[str, Meta(pattern=f"^$|{_UUID}", max_length=36)]
Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Path = Annotated[str, Meta(min_length=1, max_length=MAX_PATH_CHARS)]
Text = Annotated[str, Meta(max_length=protocol.MAX_ERROR_CHARS)]
Small = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class BadRequest(ValueError):
    """A body does not fit its type or its limits."""


class HelloMessage(Struct):
    """An agent presents itself; see `taskq_agent.protocol.Hello`."""

    key: Lease
    campaign: Path
    name: Name = ""
    host: Name = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    site: Name = ""
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = 1
    release: Annotated[str, Meta(max_length=MAX_RELEASE_CHARS)] = ""
    offers: Annotated[tuple[Name, ...], Meta(max_length=MAX_OFFERS)] = ()

    def to_protocol(self) -> protocol.Hello:
        """Return the hello as agents with a direct transport make it."""
        return protocol.Hello(**msgspec.structs.asdict(self))


class ReportMessage(Struct, omit_defaults=True):
    """How an attempt ended; see `taskq_agent.protocol.Report`.

    It is encoded as it was read, without members that have defaults, and with the session.
    """

    campaign: Id
    task: Id
    lease: Lease
    outcome: Literal["done", "failed", "released"]
    result: Raw | UnsetType = UNSET
    retry: bool = True
    started: bool = True
    error_class: Name | None = None
    error: Text | None = None
    exit_code: Small | None = None
    tail: Annotated[str, Meta(max_length=protocol.MAX_TAIL_BYTES)] | None = None
    phases: Annotated[dict[Name, float], Meta(max_length=MAX_PHASES)] = {}
    refused: bool = False
    session: int | None = None


class Exchange(Struct):
    """One round trip; see `taskq_agent.protocol.Request`."""

    reports: Annotated[tuple[ReportMessage, ...], Meta(max_length=protocol.MAX_CLAIM)] = ()
    want: Annotated[int, Meta(ge=0, le=protocol.MAX_CLAIM)] = 0
    lease: MaybeLease = ""
    lifetime_s: Annotated[float, Meta(ge=-1e9, le=1e9)] | None = None
    wait_s: Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)] = 0.0
    until_empty: bool = False
    ahead: bool = False
    without: Annotated[tuple[tuple[Id, Id], ...], Meta(max_length=protocol.MAX_WITHOUT)] = ()


class HeldMessage(Struct):
    """The fence of an attempt; see `taskq_agent.protocol.Held`, whose type has no limits."""

    campaign: Id
    task: Id
    lease: Lease


MAX_WARNINGS: Final = 16


class TroubleMessage(Struct):
    """What is wrong with an agent; see `taskq_agent.protocol.Trouble`."""

    failures: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    error_class: Name = ""
    try_in_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    warnings: Annotated[tuple[Name, ...], Meta(max_length=MAX_WARNINGS)] = ()


class OutcomesMessage(Struct):
    """How first attempts ended in a campaign; see `taskq_agent.protocol.CampaignOutcomes`."""

    campaign: Id
    done: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    failed: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class UpdateMessage(Struct, omit_defaults=True):
    """Progress and output of a running attempt; see `taskq_agent.task_messages.Update`.

    output: in base64. It is encoded as it was read, with the session.
    """

    campaign: Id
    task: Id
    lease: Lease
    fraction: Annotated[float, Meta(ge=0, le=1)] | None = None
    note: Annotated[str, Meta(max_length=MAX_NOTE_CHARS)] | None = None
    output: Annotated[bytes, Meta(max_length=protocol.MAX_TAIL_BYTES)] | None = None
    written: Id = 0
    session: int | None = None


class HeartbeatMessage(Struct):
    """A session lives and holds these attempts; see `taskq_agent.protocol.Heartbeat`."""

    held: Annotated[tuple[HeldMessage, ...], Meta(max_length=heartbeats.MOST_NAMED)] = ()
    pending: Annotated[tuple[Lease, ...], Meta(max_length=MAX_PENDING)] = ()
    drawn: MaybeLease = ""
    timeline: Id = 0
    trouble: TroubleMessage | None = None
    tally: Annotated[tuple[OutcomesMessage, ...], Meta(max_length=MAX_TALLY)] = ()
    updates: Annotated[tuple[UpdateMessage, ...], Meta(max_length=MAX_UPDATES)] = ()


class CheckpointMessage(Struct):
    """A task's checkpoint, or its output files; see `taskq_agent.task_messages`."""

    campaign: Id
    task: Id
    lease: Lease
    digest: Annotated[str, Meta(pattern="^$|^[0-9a-f]{64}$", max_length=64)] = ""
    size: Annotated[int, Meta(ge=0, le=MAX_BLOB_BYTES)] = 0


class SessionEndMessage(Struct):
    """An agent ends its session; see `taskq_agent.protocol.SessionEnd`."""

    reason: Text = ""
    exit_code: Small | None = None


#: A value of a parameter of a statement; see `manager_queries`.
Value = bool | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float | str | None
Values = dict[str, Value | list[int | str]]

Message = TypeVar("Message")


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


read_hello: Final = _reader(HelloMessage)
# flat: many reports, or many attempts in a heartbeat, may have more brackets than `MAX_DEPTH`.
read_exchange: Final = _reader(Exchange, flat=True)
read_heartbeat: Final = _reader(HeartbeatMessage, flat=True)
read_checkpoint: Final = _reader(CheckpointMessage)
read_farewell: Final = _reader(SessionEndMessage)
# PostgreSQL itself refuses what it cannot store.
read_values: Final = _reader(Values, flat=True)

encode: Final = msgspec.json.Encoder().encode


def encoded_report(report: ReportMessage, session: int) -> EncodedReports:
    """Return a report as the server-side functions take it; raise `BadRequest`."""
    if report.result is not UNSET:
        _check_result(report)
    report.session = session
    try:
        return EncodedReports(report.campaign, 1, encode(report).decode())
    except UnicodeDecodeError as error:
        raise BadRequest(f"a result is not valid Unicode: {error}") from None


def heartbeat_arguments(heartbeat: HeartbeatMessage, session: int) -> tuple[str, int, str]:
    """Return a heartbeat as `HeartbeatBatcher.send` takes it: text, number of attempts, updates."""
    text = encode(heartbeats.members(session, heartbeat))
    for one in heartbeat.updates:
        one.session, one.note = session, clean(one.note or "") or None
    named = len(heartbeat.held) + len(heartbeat.updates)
    return text.decode(), named, encode(heartbeat.updates).decode()[1:-1]


def _check_result(report: ReportMessage) -> None:
    raw = bytes(report.result)  # type: ignore[arg-type]  # a buffer, which its stub does not say
    if raw == b"null":
        report.result = UNSET  # not the JSON value null, which would be a result
    elif not raw.startswith(b"{"):
        raise BadRequest("a result must be an object")
    elif (fault := json_fault(raw, most=protocol.MAX_RESULT_BYTES, deep=MAX_DEPTH)) is not None:
        raise BadRequest(f"a result {fault}; upload a large one as a blob")


def _check_storable(body: bytes) -> None:
    """Refuse NUL and lone surrogates in any string, without decoding, which takes longer."""
    if b"\x00" in body or b"\\" in _STORABLE_ESCAPES.sub(b"", body):
        raise BadRequest("a NUL character or half a surrogate pair, which no database can store")
