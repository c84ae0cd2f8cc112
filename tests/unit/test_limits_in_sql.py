"""Limits that PostgreSQL and Python both check: the same numbers in both."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskq.model.handler import MAX_HANDLER_BYTES
from taskq.model.params import MAX_PARAMS_BYTES
from taskq.model.seed import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH
from taskq_agent.limits import MAX_DIGITS
from taskq_agent.protocol import MAX_RESULT_BYTES

FUNCTIONS = Path(__file__).parents[2] / "sql/functions"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("json_fault", f"v_digits > {MAX_DIGITS} "),
        ("json_fault", f"[0-9]{{200}}[0-9]{{{MAX_DIGITS - 199}}}"),
        (
            "checked_payload",
            f"json_fault(p_payload::text, {MAX_PAYLOAD_BYTES}, {MAX_PAYLOAD_DEPTH})",
        ),
        ("checked_reports", f"{MAX_RESULT_BYTES + 32_768}, 102)"),
        ("change_campaign", f"'handler')::text, {MAX_HANDLER_BYTES}, "),
        ("change_campaign", f"'params')::text, {MAX_PARAMS_BYTES}, "),
        ("seed_end", f"least(p_largest, {MAX_PAYLOAD_BYTES})"),
    ],
)
def test_functions_have_the_limits_of_the_library(name: str, said: str) -> None:
    """Also where they say them in another way."""
    source = (FUNCTIONS / f"{name}.sql").read_text(encoding="utf-8")
    assert said in source


def test_a_claim_and_a_lease_ahead_have_as_many_bytes() -> None:
    """Of payloads together."""
    most = {
        tuple(re.findall(r"(\d+) / greatest\(c\.payload_bytes", (FUNCTIONS / one).read_text()))
        for one in ("take.sql", "lease_ahead.sql")
    }
    assert most == {(str(4 << 20),)}
