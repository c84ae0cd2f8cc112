"""Input of an agent that others wrote: answers, spool files, lines of payload processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.core.reports import fence, line, parsed
from taskq_agent.errors import TransportError
from taskq_agent.handlers import results
from taskq_agent.handlers.base import Ended
from taskq_agent.handlers.results import BadAnswer
from taskq_agent.http.answers import error_of
from taskq_agent.protocol import (
    DONE,
    Ack,
    Answer,
    CampaignTerms,
    HeartbeatAnswer,
    Held,
    Input,
    Orders,
    Report,
    Task,
    Unservable,
    Welcome,
)
from taskq_agent.spool import Spool
from taskq_agent.wire import decoded, dumps
from tests.helpers.corruption import ANYTHING, corrupted

#: Reads long numbers, within 20 s of a processor.
_READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from taskq_agent import buffers
from taskq_agent.handlers import results
text = b'{"x": ' + b"7" * 8_000_000 + b"}"
packed = b"".join(map(bytes, buffers.packed([text])))
for read in (results.parsed, lambda one: buffers.json_of(packed)):
    try:
        read(text)
    except ValueError as error:
        assert "digits" in str(error), error
    else:
        raise SystemExit("it was read")
assert results.parsed(b'{"x": ' + b"7" * 400 + b', "y": 0.' + b"3" * 9_000 + b"}")["x"] > 7
"""

pytestmark = pytest.mark.thorough

ANSWERS = [
    Welcome(1, 30.0, 120.0, "tqs_secret"),
    Answer(
        (Ack(1, 2, "lease", "accepted"),),
        (Task(1, 2, 3, "key", 4, "lease", {"ligand": "CC"}),),
        (CampaignTerms(1, 2, "/a", {"kind": "command"}, {}, 1.5, {"r": Input("ab", 3)}, "stop"),),
        7,
        Orders(drain=True, gateways=("https://a",), claim_after_s=1.5),
        unservable=Unservable(2, ("/a has no handler",)),
    ),
    HeartbeatAnswer((Held(1, 2, "lease"),), Orders(elsewhere=True)),
]
CHUNKS = st.lists(
    st.binary(max_size=40) | st.sampled_from([b"\n", b"{", b'"', b"\\u0000", b"\0" * 500, b"\xff"]),
    max_size=4,
).map(b"".join)


def assert_typed(taken: Any, like: Any) -> None:
    """Compare the types of what a message holds with those of another that is whole."""
    assert type(taken) is type(like)
    if is_dataclass(like):
        for field in fields(like):
            value, example = getattr(taken, field.name), getattr(like, field.name)
            if value is None:
                assert str(field.type).startswith("Optional[")
            elif example is not None:
                assert_typed(value, example)
    elif isinstance(like, tuple):
        for value in taken:
            assert_typed(value, like[0])


@pytest.mark.parametrize("message", ANSWERS, ids=lambda message: type(message).__name__)
@given(data=st.data())
def test_spoiled_answer_is_a_message_or_refused(message: Any, data: st.DataObject) -> None:
    """Of a gateway, or of anyone who answers in its place; what is taken can be written again."""
    value = data.draw(corrupted(json.loads(dumps(message))))
    try:
        taken = decoded(type(message), json.dumps(value).encode())
    except ValueError:
        return
    assert_typed(taken, message)
    assert decoded(type(message), dumps(taken).encode()) == taken


@given(
    st.integers(100, 999),
    st.none() | st.text() | st.floats().map(str),
    CHUNKS | ANYTHING.map(lambda value: json.dumps({"error": value}).encode()),
    st.booleans(),
)
def test_any_refusal_is_an_error_of_the_transport(
    status: int, retry_after: str | None, body: bytes, with_session: bool
) -> None:
    """With a text that is short and safe to show, whatever status, header and body are."""
    error = error_of(status, retry_after, body, with_session=with_session)
    assert isinstance(error, TransportError)
    assert len(str(error)) < 700
    assert not set(str(error)) & set("\x1b\x9b\r\n\0")


def report_of(task: int) -> Report:
    """Return a report on a task."""
    return Report(1, task, f"{task:08x}-0000-7000-8000-000000000000", DONE, result={"task": task})


@given(data=st.data())
def test_damaged_spool_costs_the_damaged_lines_only(data: st.DataObject) -> None:
    """Whatever a disk or another program did to a file, all lines that are whole are sent."""
    kept = [line(report_of(task)) for task in range(4)]
    damaged = data.draw(st.integers(0, 3))
    at = data.draw(st.integers(0, len(kept[damaged])))
    until = data.draw(st.integers(at, len(kept[damaged])))
    text = kept[damaged][:at] + data.draw(CHUNKS) + kept[damaged][until:]
    if not text.endswith(b"\n"):
        text += b"\n"  # else the next line would be damaged as well
    with tempfile.TemporaryDirectory() as folder:
        content = b"".join([*kept[:damaged], text, *kept[damaged + 1 :]])
        Path(folder, "agent-1.reports").write_bytes(content)
        spool = Spool(Path(folder), "successor")
        found = {fence(report): report for report, _ in spool.open()}
        spool.close()
    whole = [report_of(task) for task in range(4) if task != damaged]
    assert [found.get(fence(report)) for report in whole] == whole


@given(ANYTHING)
def test_line_of_a_spool_is_a_report_or_refused(value: object) -> None:
    """So that nothing is sent that the queue could not understand."""
    try:
        report = parsed(json.dumps(value).encode())
    except ValueError:
        return
    assert parsed(line(report)) == report


@given(
    corrupted({"id": 1, "result": {"a": 1}, "error": "e", "error_class": "c", "verdict": "fail"})
)
def test_answer_of_a_payload_process_ends_the_attempt_or_is_refused(answer: object) -> None:
    """Its texts are cut and cleaned, its result is one that can be reported."""
    if not isinstance(answer, dict):  # the channel has refused it
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = results.ended_by(answer, 1, folder)
        except BadAnswer:
            return
    assert isinstance(ended, Ended)
    if ended.outcome == DONE and ended.large is None:
        results.encoded(ended.result)


@pytest.mark.parametrize("before", [b"", b"[" * 100_000, b'{"a":' * 100_000], ids=len)
@given(text=CHUNKS)
def test_any_line_of_a_payload_process_is_a_value_or_refused(before: bytes, text: bytes) -> None:
    """Bytes that are no UTF-8 or no JSON are a ValueError, as is what is nested too deep."""
    with suppress(ValueError):
        results.parsed(before + text)


def test_numbers_of_millions_of_digits_are_refused_at_once_by_any_python() -> None:
    """Also where Python has no limit of its own, and would read for hours."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONINTMAXSTRDIGITS": "0"}
    read = [sys.executable, "-c", _READ]
    ended = subprocess.run(read, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
