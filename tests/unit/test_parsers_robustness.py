"""All that people and programs write for taskq: right, or refused by the documented error."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import io
import json
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from taskq.db.tokens import hashed, session_token
from taskq.front.address import FrontAddress
from taskq.front.entries import Entry, FrontState, open_entry
from taskq.ingest.campaign_file import read_campaign_file
from taskq.ingest.sources import FORMATS, Record, SourceOptions, sweep
from taskq.ingest.sources.lines import LineReader
from taskq.ingest.sources.records import EXCERPT_CHARS
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import InvalidTask, TaskqError, UsageError
from taskq.model.requirements import check_offers, check_requires
from taskq.model.seed import Seed, check_path
from taskq_cli.main import main
from tests.helpers.corruption import ANYTHING, TEXTS, corrupted

SPEC = {
    "path": "/a/b",
    "description": "text",
    "handler": {"kind": "command", "argv": ["dock", "{x}"]},
    "retry": {"max_attempts": 3, "backoff_s": 1.0},
    "weight": 1.0,
    "requires": ["gpu", "mem=64"],
    "limits": {"time_limit_s": 5.0, "max_running": 10},
    "params": {"receptor": "r", "n": [1, {"deep": None}]},
}
TOML = b"""path = "/a/b"
[handler]
kind = "command"
argv = ["dock", "{x}"]
[limits]
time_limit_s = 5.0
[seed]
file = "x.csv"
sweep = ["n=1:4"]
"""
STATE = FrontState("queue", 3, b"s" * 32, 120.0, 0.0)
PARSERS: list[Callable[[str], object]] = [
    check_path,
    FrontAddress.parsed,
    lambda text: check_requires([text]),
    lambda text: check_offers([text]),
    lambda text: session_token("tqe_x", text),
    lambda text: sweep([text]),
    lambda text: sweep([f"n={text}"]),
]
ODD = st.lists(
    st.sampled_from(
        [
            "/",
            ":",
            "=",
            ",",
            ".",
            "-",
            "1",
            "9" * 400,
            "e9",
            "a",
            "{",
            "é",
            "\0",
            "\ud800",
            " ",
            "\n",
        ]
    ),
    max_size=8,
).map("".join)
NOWHERE = "host=/nonexistent dbname=x"
# Python makes each byte that is not UTF-8 one of these; no argument has other surrogates.
NO_ARGUMENT = re.compile("[\ud800-\udc7f\udd00-\udfff]")
WORDS = st.one_of(
    # Without standard input.
    ODD.filter(lambda word: word != "-" and not NO_ARGUMENT.search(word)),
    st.sampled_from(
        ["--key", "--limit", "--output", "json", "--status", "--error-class", "/c", "--yes", "-1"]
    ),
)
COMMANDS = ["ls", "tree", "status", "tasks", "failures", "logs", "results", "retry", "cancel"]


@given(corrupted(SPEC))
def test_campaign_is_right_or_refused(value: object) -> None:
    """What is taken means the same when it is written and read again."""
    try:
        spec = CampaignSpec.from_json(value)
    except UsageError:
        return
    assert CampaignSpec.from_json(spec.to_json()) == spec
    json.dumps(spec.to_json(), allow_nan=False).encode()


@given(data=st.data())
def test_campaign_file_is_right_or_refused(data: st.DataObject) -> None:
    """Bytes that are nearly TOML, or none; the error names the file."""
    at = data.draw(st.integers(0, len(TOML)))
    until = data.draw(st.integers(at, min(len(TOML), at + 40)))
    odd = data.draw(st.binary(max_size=20) | ODD.map(lambda text: text.encode(errors="replace")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "campaign.toml")
        path.write_bytes(TOML[:at] + odd + TOML[until:])
        try:
            read_campaign_file(path)
        except UsageError as error:
            assert str(path) in str(error)  # noqa: PT017  # it may as well be right


@pytest.mark.parametrize("parser", range(len(PARSERS)))
@given(text=TEXTS | ODD)
def test_text_is_right_or_refused(parser: int, text: str) -> None:
    """Paths, addresses, tags, keys of a hello, sweeps."""
    with suppress(UsageError):
        PARSERS[parser](text)


@given(TEXTS)
def test_any_text_can_be_shown_as_a_token(text: str) -> None:
    """It is just unknown."""
    assert len(hashed(text)) == 32


@given(st.dictionaries(TEXTS, ANYTHING, max_size=3), TEXTS, ANYTHING)
def test_task_is_right_or_refused(payload: dict[str, Any], key: str, priority: Any) -> None:
    """What is taken fits into a line of what is sent, and is bounded."""
    try:
        key, text, _ = Seed(payload, key, priority).encoded()
    except UsageError:
        return
    assert len(text.encode()) <= 65_536
    assert not set(text) & set("\n\t\0")
    key.encode()


@given(
    st.binary(max_size=80)
    | corrupted([1, 2, 3, 4, 1_700_000_000_000, "key", {"n": 1}]).map(
        lambda value: json.dumps(value).encode()
    ),
    st.booleans(),
)
def test_entry_of_redis_is_genuine_or_nothing(body: bytes, sealed: bool) -> None:
    """Also one that somebody who knows the secret has made of anything."""
    tag = hmac.digest(STATE.secret, body, hashlib.sha256).hex()[:32].encode() if sealed else b""
    entry = open_entry(tag + body, STATE)
    assert entry is None or isinstance(entry, Entry)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(COMMANDS), st.lists(WORDS, max_size=4))
def test_any_words_on_the_command_line_get_one_line_and_a_code(
    command: str, words: list[str]
) -> None:
    """Never a traceback: the words are wrong, or there is no server to ask."""
    environment = {"TASKQ_DSN": NOWHERE}
    result = CliRunner().invoke(main, [command, *words], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert isinstance(result.exception, TaskqError), (command, words)
    assert result.exit_code in {1, 2, 65, 66, 69}, (command, words, result.output)


# Pieces that each format takes for structure, so that more than noise is tried.
PIECES = [
    b"\n", b"\r\n", b"\r", b"\t", b",", b" ", b";", b'"', b"#", b"\\u0000", b"\\", b"\0", b"\xff",
    b"\xef\xbb\xbf", b"$$$$\n", b"M  END\n", b"> <id>\n", b"a\n\n\nM  END\n", b"id", b"smiles",
    b"CCO", b"{", b"}", b"[", b'{"id": "a"}\n', b'{"id":', b"id,b\n", b"id\tb\n", b"1e999", b"7",
    b"x" * 300, b'"' * 30_000, b"\x01" * 12_000, "é€😀".encode(), b'"\\ud800"',
]  # fmt: skip

DATA = st.one_of(
    st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
)


def read_to_the_end(name: str, data: bytes, options: SourceOptions) -> tuple[list[Record], str]:
    """Return the records and the text of the error that ended them, if one did."""
    records: list[Record] = []
    try:
        records.extend(FORMATS[name].read(LineReader(io.BytesIO(data), "file"), options))
    except UsageError as error:
        return records, str(error)
    return records, ""


@given(DATA, st.sampled_from(sorted(FORMATS)), st.booleans(), st.booleans(), st.booleans())
def test_arbitrary_bytes_never_give_an_invalid_task(
    data: bytes, name: str, compressed: bool, keyed: bool, as_text: bool
) -> None:
    """Each record is a seed that `encoded` takes, or a bad line with number and reason."""
    known = FORMATS[name].options
    options = SourceOptions(
        key="id" if keyed and "key" in known else None,
        types="text" if as_text and "types" in known else "guess",
    )
    records, error = read_to_the_end(name, gzip.compress(data) if compressed else data, options)
    assert not error or error.startswith("file")
    for record in records:
        if isinstance(record, Seed):
            record.encoded()
        else:
            assert 1 <= record.number <= data.count(b"\n") + data.count(b"\r") + 1
            assert record.reason
            assert len(record.text) <= EXCERPT_CHARS
            assert record.text.isprintable()


@given(DATA, st.sampled_from(sorted(FORMATS)))
def test_reading_twice_gives_the_same(data: bytes, name: str) -> None:
    """Seeding a file again adds nothing, so its tasks and keys depend on its bytes alone."""
    first, again = (read_to_the_end(name, data, SourceOptions()) for _ in range(2))
    assert first == again


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_payload_and_derived_key_are_those_of_json(payload: dict[str, Any]) -> None:
    """The key too, byte for byte: tasks that were seeded by any release are found again."""
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    key = f"sha256:{hashlib.sha256(canonical).hexdigest()[:40]}"
    assert Seed(payload).encoded() == (key, json.dumps(payload, ensure_ascii=False), 0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), {1}, b"", object()])
def test_value_that_json_cannot_express_is_refused(wrong: object) -> None:
    """With json's reason."""
    with pytest.raises(InvalidTask, match="a payload must be JSON: ") as caught:
        Seed({"n": [wrong]}).encoded()
    with pytest.raises((TypeError, ValueError)) as reason:
        json.dumps({"n": [wrong]}, allow_nan=False)
    assert str(caught.value).endswith(str(reason.value))
