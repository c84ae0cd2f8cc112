"""Texts of strangers that a pattern could read for hours: each takes time in proportion to it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.campaign.filter_lexer import MAX_CHARS
from taskq.campaign.filter_parser import parse
from taskq.model.errors import BY_SQLSTATE, InvalidFilter, UnknownCampaign, from_server
from taskq.results.records import marked
from taskq_agent.http.answers import first_line
from taskq_agent.json_limits import has_nul_escape, json_fault
from taskq_agent.text import clean
from taskq_cli.display.render import folded
from taskq_cli.display.text import one_line

LENGTH, MOST_S = 200_000, 2.0
PIECES = (
    *(" ", "\t", "\n", " \n", "\x1b", "\x1b]", "\x1b[0", "\r", "\\", '"', "'", "`", ";", "\u00a0"),
    *("<", "<style>", "<script ", "<!--", "</", "{", "[", "[{", "1e9", "0", "-", "a ", "=", "(("),
)


def filtered(text: str) -> None:
    """Read a filter."""
    with suppress(InvalidFilter):
        parse(text[:MAX_CHARS])


READERS: dict[str, Callable[[str], object]] = {
    "one line": one_line,
    "lines of a terminal": lambda text: folded(text, 80),
    "text of a terminal": clean,
    "NUL in JSON": lambda text: has_nul_escape(text + "\\u0000"),
    "limits of JSON": lambda text: json_fault(text.encode(), most=1 << 26, deep=64),
    "page of a proxy": lambda text: first_line(text.encode()),
    "error of a server": lambda text: from_server(BY_SQLSTATE["TQ404"], f"no campaign /{text}\n"),
    "cell of a spreadsheet": marked,
    "filter": filtered,
}


@pytest.mark.thorough
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("end", ["", "x"])
def test_no_text_keeps_its_reader_busy(reader: str, end: str) -> None:
    """Where time grows with the square of the length, this takes minutes."""
    for piece in PIECES:
        text = piece * (LENGTH // len(piece)) + end
        begun = time.thread_time()
        READERS[reader](text)
        assert time.thread_time() - begun < MOST_S, (reader, piece)


@given(st.lists(st.sampled_from([" ", "\n", "\t", "a", "b ", "\u00a0", "\x1b"])).map("".join))
def test_one_line_has_a_space_for_line_ends_and_what_is_around_them(text: str) -> None:
    """As a pattern says that takes longer."""
    plain = text.replace("\x1b", "\\x1b").strip("\n")
    assert one_line(text) == re.sub(r"\s*\n\s*", " ", plain).replace("\t", " ")


def test_page_without_ends_has_its_text_all_the_same() -> None:
    """What stands before a mark that is not closed."""
    assert first_line(b"<h1>Bad gateway</h1><style>b {}") == "Bad gateway"
    assert first_line(b"<STYLE>b {}</style>\n<p>1 < 2 & more") == "1 < 2 & more"
    assert first_line(b"<!-- x <p>y") == ""


def test_missing_campaign_is_named() -> None:
    """With and without advice."""
    for text in ("no campaign /a/b", "no campaign /a/b; did you mean /a?"):
        error = from_server(BY_SQLSTATE["TQ404"], text)
        assert isinstance(error, UnknownCampaign)
        assert "/a/b" in str(error)
