"""Each limit of what comes from outside is in the table of limits, and the same in PostgreSQL."""

from __future__ import annotations

import re

import pytest

from taskq.db.sql_files import files_of
from taskq.model.handler import MAX_HANDLER_BYTES
from taskq.model.seed import MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH
from taskq.model.table_checks import MAX_PARAMS_BYTES
from taskq_agent.json_limits import MAX_DIGITS
from taskq_agent.protocol import MAX_RESULT_BYTES
from tests.helpers.limits_page import LIMITS, PAGE, ROOT, page, words

#: The modules that read what comes from outside, below the folder.
READERS = (
    ("", "taskq/gateway/*.py"),
    ("", "taskq/gateway/http/*.py"),
    ("agents", "taskq_agent/protocol.py"),
    ("agents", "taskq_agent/transport.py"),
    ("agents", "taskq_agent/json_limits.py"),
    ("agents", "taskq_agent/units.py"),
    ("agents", "taskq_agent/task_messages.py"),
    ("agents", "taskq_agent/http/transport.py"),
    ("", "taskq/model/seed.py"),
    ("", "taskq/model/campaign_checks.py"),
    ("", "taskq/db/headers.py"),
    ("", "taskq/campaign/filter_*.py"),
    ("", "taskq/upkeep/*.py"),
)
#: What is named as a limit.
LIMIT = re.compile(r"^(_?(?:MAX|MOST|LONGEST)(?:_\w+)?|\w+_MOST)\b(?=[^\n]*=)", re.MULTILINE)
#: Constants of these modules that are no limits of what comes from outside, and why.
OTHERS = {
    "taskq.gateway.auth._MOST_AT_ONCE": "a batch; the next has the rest",
    "taskq.gateway.auth._MOST_KEPT": "a cache; what is forgotten is looked up again",
    "taskq.gateway.bindings._MOST_AT_ONCE": "a batch; the next has the rest",
    "taskq.gateway.bindings._MOST_ENDED": "a cache; what is forgotten is looked up again",
    "taskq.gateway.bindings._MOST_UNNAMED": "beyond it a task is bound to no session",
    "taskq.gateway.large_bodies.MOST_TIMES": "how a rest grows with the size of a body",
    "taskq.gateway.stored_metrics.MOST": "rows of an answer, not of a request",
    "taskq.gateway.stored_metrics._MOST_SCOPES": "a cache; what is forgotten is read again",
    "taskq.gateway.stored_metrics._MOST_ENDS": "campaigns of an answer, not of a request",
    "taskq.gateway.pace.LONGEST_S": "how clients that come again are spread",
    "taskq.gateway.pages_process.MAX_HEAD_BYTES": "of answers of a process of the gateway",
    "taskq.gateway.token_rate.MOST_COUNTED": "a cache; what is forgotten begins anew",
    "taskq.model.campaign_checks.MAX_CLASS_CHARS": "of an error class; see gateway.messages",
    "taskq_agent.http.transport._MAX_TOKEN_BYTES": "of a file that the user names",
    "taskq_agent.units.MAX_BYTES": "of a size that people give",
    "taskq_agent.task_messages.MAX_OUTPUTS": "what an agent sends; see MAX_UPDATES",
}


def test_page_has_the_values_of_the_constants() -> None:
    """`make schema` writes them."""
    assert page() == PAGE.read_text(encoding="utf-8"), "run `make schema`"


def test_each_limit_of_what_reads_from_outside_is_in_the_table() -> None:
    """Or it is known why it is none; a new one gets its row in tests/helpers/limits_page.py."""
    listed = {f"{module}.{name}" for module, rows in LIMITS.items() for name, _, _ in rows}
    found = set()
    for folder, pattern in READERS:
        files = list((ROOT / folder).glob(pattern))
        assert files, pattern
        for file in files:
            module = ".".join(file.relative_to(ROOT / folder).with_suffix("").parts)
            source = file.read_text(encoding="utf-8")
            found |= {f"{module}.{name}" for name in LIMIT.findall(source)}
    assert sorted(found - listed - OTHERS.keys()) == []
    assert sorted(OTHERS.keys() - found) == [], "exceptions that are there no longer"
    assert OTHERS.keys() & listed == set()


@pytest.mark.parametrize(
    ("name", "of", "said"),
    [
        ("MAX_BYTES", 65_536, "64 KiB"),
        ("MAX_BYTES", 49_152, "48 KiB"),
        ("MAX_BYTES", 1_001, "1,001 bytes"),
        ("ARCHIVE_BYTES", (16_384, 1 << 50), "16 KiB to 1 PiB"),
        ("LEAST_BYTES_PER_S", 8_192, "8 KiB a second"),
        ("ASKED_PER_S", 100.0, "100 a second"),
        ("WAIT_S", 30.0, "30 s"),
        ("MAX_SECONDS", 31_536_000, "365 days"),
        ("MAX_KEY_CHARS", 10_000, "10,000 characters"),
        ("MAX_DEPTH", 100, "100"),
    ],
)
def test_values_are_written_as_people_read_them(name: str, of: object, said: str) -> None:
    assert words(name, of) == said


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
    source = files_of("functions")[name].read_text(encoding="utf-8")
    assert said in source


def test_claim_and_a_lease_ahead_have_as_many_bytes() -> None:
    """Of payloads together."""
    texts = [files_of("functions")[name].read_text("utf-8") for name in ("take", "lease_ahead")]
    most = {tuple(re.findall(r"(\d+) / greatest\(c\.payload_bytes", text)) for text in texts}
    assert most == {(str(4 << 20),)}
