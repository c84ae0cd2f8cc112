"""What a gateway answers to managers, right and wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.db.gateway_answers import answered_rows, read_refusal
from taskq.db.gateway_queries import GatewayQueries
from taskq.db.queue_address import manager_token
from taskq.model import errors
from taskq.model.errors import Conflict, KeyConflict, NotOverGateway, TaskqError, UsageError

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def refused(status: int, **known: Any) -> TaskqError:
    """Return the exception of an answer."""
    body = json.dumps({"error": {"code": "x", "message": "m", **known}}).encode()
    return read_refusal(status, None, body).error("counts")


def test_rows_have_the_types_that_postgresql_gives() -> None:
    """Instants and exact numbers, which JSON cannot say."""
    body = (
        b'[["at","timestamptz"],["ranks","numeric[]"],["payload","jsonb"],["n","int8"]]\n'
        b'["2026-01-02T03:04:05.000006Z",["1.10"],{"a":[1]},9007199254740993]\n[null,null,null,0]\n'
    )
    first, second = answered_rows(body)
    assert first == {
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc),
        "ranks": [Decimal("1.10")],
        "payload": {"a": [1]},
        "n": 2**53 + 1,
    }
    assert second == {"at": None, "ranks": None, "payload": None, "n": 0}
    assert answered_rows(b'[["n","int8"]]\n') == []


def test_exceptions_are_known_ones_only() -> None:
    """By name, out of taskq's own; anything else by its status."""
    assert type(refused(409, kind="Conflict")) is Conflict
    assert type(refused(404, code="not_offered")) is NotOverGateway
    conflict = refused(
        409,
        kind="KeyConflict",
        details={"count": 1, "too_long": False, "clashes": [["k", "1", "2", 1]]},
    )
    assert isinstance(conflict, KeyConflict)
    assert conflict.clashes[0].key == "k"
    assert type(refused(422, kind="annotations")) is UsageError
    assert type(refused(403, kind="os.system")) is errors.Forbidden
    assert type(refused(502)) is errors.Unavailable
    text = str(read_refusal(503, None, b"<html>\x1b[31mdown\r\n").error("counts"))
    assert "\x1b" not in text
    assert "\n" not in text


@given(status=st.integers(300, 599), error=JSON, body=st.binary(max_size=40))
def test_nonsense_of_a_gateway_is_an_error_in_a_line(
    status: int, error: object, body: bytes
) -> None:
    """Whatever it answers, the caller gets an exception of taskq, or rows."""
    for part in (json.dumps({"error": error}).encode(), body):
        found = read_refusal(status, "x", part).error("counts")
        assert isinstance(found, TaskqError)
        assert "\n" not in str(found)
        with suppress(ValueError):
            answered_rows(part)


def test_token_is_a_managers_and_of_a_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of agents is recognised before it is sent anywhere."""
    monkeypatch.delenv("TASKQ_TOKEN_FILE", raising=False)
    monkeypatch.delenv("TASKQ_TOKEN", raising=False)
    with pytest.raises(UsageError, match="TASKQ_TOKEN_FILE"):
        manager_token()
    monkeypatch.setenv("TASKQ_TOKEN", "tqm_a")
    assert manager_token() == "tqm_a"
    file = tmp_path / "token"
    file.write_text("tqm_b\n")
    file.chmod(0o600)
    monkeypatch.setenv("TASKQ_TOKEN_FILE", str(file))
    assert manager_token() == "tqm_b"
    for wrong, reason in (("tqe_x", "token of agents"), ("a b", "not a token")):
        file.write_text(wrong)
        with pytest.raises(UsageError, match=reason):
            manager_token()
    with pytest.raises(UsageError, match="No such file"):
        manager_token(tmp_path / "absent")


def test_token_is_not_sent_in_the_clear() -> None:
    """To another host only by https."""
    with pytest.raises(UsageError, match="in the clear"):
        GatewayQueries("http://gw.example.org", "tqm_x")
