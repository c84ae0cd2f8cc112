"""What is checked in JSON text before anything reads it, alike by PostgreSQL and for a gateway."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskq_agent.json_limits import json_fault
from tests.fuzz.json_texts import DOCUMENTS
from tests.helpers.postgres import Postgres, value

MOST, DEEP = 2_000, 6


@pytest.mark.thorough
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(document=DOCUMENTS, wide=st.integers(1, 30))
def test_python_and_postgresql_say_the_same(postgres: Postgres, document: str, wide: int) -> None:
    """Of numbers, size and depth, whatever strings look like; what passes can be read."""
    text = f"[{','.join([document] * wide)}]"
    said = json_fault(text.encode(), most=MOST, deep=DEEP)
    found = value(postgres, "select taskq.json_fault(%s, %s, %s)", text, MOST, DEEP)
    assert (said is None) == (found is None), (said, found)
    if said is None and "\\u0000" not in text:
        written = value(postgres, "select %s::jsonb::text", text)
        # PostgreSQL puts a space behind each comma and colon.
        assert len(written.encode()) <= 2 * MOST
        json.loads(written)


HOSTILE: dict[str, Any] = {
    "one long number": "[" + "7" * 500_000 + "]",
    "long numbers": "[" + ",".join(["7" * 350] * 1_400) + "]",
    "points": "[" + "." * 500_000 + "]",
    "exponents": "[" + "1e" * 250_000 + "]",
    "zeros in exponents": "[1e" + "0" * 500_000 + "]",
    "brackets": "[" * 250_000 + "]" * 250_000,
    "odd brackets": "[]{}" * 120_000 + "[",
    "quotes": '"' * 500_001,
    "backslashes": '"' + "\\" * 500_001,
    "escaped quotes": '["' + '\\"' * 250_000 + '", 1e99999]',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_looking_takes_time_in_proportion(postgres: Postgres, text: str) -> None:
    """Half a megabyte of whatever is looked through in a moment, JSON or not."""
    took = []
    for _ in range(3):
        begun = time.process_time()
        json_fault(text.encode(), most=1 << 20, deep=100)
        took.append(time.process_time() - begun)
    assert min(took) < 2, "in proportion it takes a hundredth of that, else minutes"
    postgres.execute("set statement_timeout = '60s'")
    postgres.execute("select taskq.json_fault(%s, %s, %s)", [text, 1 << 20, 100])


#: Brackets that hundreds of passes would not pair.
UNPAIRED = {
    "nested": "[" * 250_000 + "]" * 250_000,
    "open": "[{" * 250_000,
    "closed": "[" * 200 + "]" * 500_000,
    "half open": "[[]" * 170_000,
}


@pytest.mark.thorough
@pytest.mark.parametrize("text", UNPAIRED.values(), ids=UNPAIRED)
def test_brackets_are_not_paired_in_vain(postgres: Postgres, text: str) -> None:
    """Half a megabyte of them takes no more than some looks at each word of a text of that size.

    Hundreds of passes would take a hundred looks, so a busy machine does not decide.
    """
    words = "[1," * (len(text) // 3)
    look, fault = (
        min(_seconds(postgres, call, argument) for _ in range(4))
        for call, argument in (
            ("regexp_replace(%s, '[^][{}]+', '', 'g')", words),
            ("taskq.json_fault(%s, 1 << 20, 100)", text),
        )
    )
    assert fault < 10 * look
    assert "nested" in value(postgres, "select taskq.json_fault(%s, 1 << 20, 100)", text)


def _seconds(postgres: Postgres, call: str, text: str) -> float:
    begun = time.perf_counter()
    postgres.execute(f"select {call}".encode(), [text])
    return time.perf_counter() - begun
