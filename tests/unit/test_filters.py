"""Filters: what they become, and the errors of those that cannot be read."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.campaign.filter_compiler import compiled
from taskq.campaign.filter_lexer import MAX_CHARS
from taskq.campaign.filter_parser import MAX_COMPARISONS, MAX_DEPTH, MAX_PIECES, parse
from taskq.campaign.filter_terms import KINDS, And, FieldComparison, Not, Or
from taskq.model.errors import InvalidFilter
from taskq.model.seed import STATUSES
from tests.helpers.corruption import TEXTS

WORDS = st.sampled_from(
    [
        *(*KINDS, *STATUSES, "and", "or", "not", "in", "null", "true", "payload.a", "result.b.c"),
        *("(", ")", ",", ".", "=", "!=", "<", "<=", "~", '"a"', "'b", '"failed"', "1", "-2.5e3"),
        *("==", "&&", "\\", "\0", "\ud800", "\x1b[2J", "日本"),
    ]
)


def test_and_binds_closer_than_or_and_not_closest() -> None:
    """As everywhere; keywords are written as one likes."""
    comparison, two, three = (
        FieldComparison((name,), "=", (name,)) for name in ("key", "host", "site")
    )
    text = 'key = "key" OR not host = \'host\' And site="site"'
    assert parse(text) == Or((comparison, And((Not(two), three))))
    assert parse('(key="key" or host="host") and site="site"') == And(
        (Or((comparison, two)), three)
    )


def test_not_equal_and_not_in_are_negations() -> None:
    """So a task without the field fulfils them."""
    assert parse('host != "a"') == Not(parse('host = "a"'))
    assert parse('host not in ("a", "b")') == Not(parse('host in ("a", "b")'))
    assert parse("payload.x != null") == Not(parse("payload.x = null"))


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("payload.a != 1", True),
        ("payload.a not in (1, 2)", True),
        ("payload.a = null", True),
        ("not payload.a < 1", True),
        ("not (payload.a = 1 or key = 'x')", True),
        ("payload.a != 1 and key = 'x'", True),
        ("payload.a = 1", False),
        ("payload.a = 1 or key = 'x'", False),
        ("payload.a != null", False),
        ("not payload.a = null", False),
        ("payload.a != null and payload.a != 1", False),
        ("payload.a != null and (payload.a != 1 or key = 'x')", False),
        ("payload.a.b != 1", False),
        ("not (not payload.a ~ 'x')", False),
        ("payload.a = null and payload.a != null", False),
    ],
)
def test_filter_knows_whether_the_lack_of_a_field_satisfies_it(text: str, finds: bool) -> None:
    """A misspelt name would match everything; other terms match with or without the field."""
    assert compiled(text).finds_lack_of(("payload", "a")) == finds


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ('state = "failed" and host = "n17"', "failed"),
        ('state in ("failed", "done") and state != "done"', "failed"),
        ('state = "failed" or state = "delayed"', "failed delayed"),
        ('not state = "failed"', "waiting delayed working done cancelled"),
        ('not (state = "failed" and host = "n17")', " ".join(STATUSES)),
        ('state = "failed" or host = "n17"', " ".join(STATUSES)),
        ("state = null", ""),
        ("state != null", " ".join(STATUSES)),
    ],
)
def test_states_that_can_match_are_known_before_anything_is_read(text: str, states: str) -> None:
    """It decides what is looked at."""
    assert compiled(text).states == set(states.split())


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "empty"),
        ("hots = 1", 1, "did you mean host?"),
        ("status = fail", 10, "a status is one of"),
        ("colour = 1", 1, "there are key, state"),
        ("host = n17", 8, 'is it "n17"?'),
        ("host", 5, "one of = !="),
        ("host == 'a'", 6, "write = instead of =="),
        ("host = 'a' && site = 'b'", 12, "write and"),
        ("host = 'a", 8, "not closed"),
        (r"host = 'a\d'", 10, "an escape is one of"),
        ("host = 'a' site = 'b'", 12, "and, or, or the end"),
        ("(host = 'a'", 12, "closing parenthesis"),
        ("host in 'a'", 9, "in parentheses"),
        ("host in ('a' 'b')", 14, "a comma"),
        ("host not 'a'", 10, "expected in"),
        ("host in (null)", 10, "only by = and !="),
        ("host = 1", 8, "host is text"),
        ("host.x = 1", 6, "has no fields"),
        ("payload = 1", 9, "payload.NAME"),
        ("payload. = 1", 10, "name of a field"),
        ("attempts < '3'", 12, "attempts is a number"),
        ("attempts ~ '3'", 12, "a piece of text"),
        ("error ~ ''", 9, "a piece of text"),
        ("attempts < 3x", 12, "not a number"),
        ("attempts < 1e999", 12, "too long"),
        ("state = 'fialed'", 9, "a status is one of waiting"),
        ("state < 'done'", 9, "no order"),
        ("payload.x < true", 13, "only by ="),
        ("host = 'a\0'", 10, "not a valid text"),
        ("host = '\ud800'", 9, "not a valid text"),
        ("not " * MAX_DEPTH + "host = 'a'", 4 * MAX_DEPTH + 1, "deeper"),
        (" or ".join(["host = 'a'"] * (MAX_COMPARISONS + 1)), 1401, "at most 100 comparisons"),
        (" or ".join(["host ~ 'a'"] * (MAX_PIECES + 1)), 286, "at most 20 comparisons with ~"),
        ("host = '" + "a" * MAX_CHARS + "'", MAX_CHARS + 1, "at most 10,000 characters"),
    ],
)
def test_error_points_at_the_unreadable_part_of_a_filter(
    text: str, column: int, reason: str
) -> None:
    """The caret is below the place, in what is shown of the text."""
    with pytest.raises(InvalidFilter, match=re.escape(reason)) as caught:
        compiled(text)
    assert caught.value.column + 1 == column
    shown, caret = caught.value.excerpt.split("\n")
    assert len(shown) <= 74
    assert caret.strip() == "^"
    place = len(caret) - 1
    if column <= len(text) and text[column - 1].isprintable():
        assert shown[place] == text[column - 1]
    assert shown.isprintable()


def test_caret_is_below_wide_characters() -> None:
    """Those take two cells, and those that combine with others none."""
    with pytest.raises(InvalidFilter) as caught:
        parse("key = '日本e\u0301' and hots = 1")
    _, caret = caught.value.excerpt.split("\n")
    assert caret.index("^") == 2 + len("key = 'xxxxe' and ")


@given(st.lists(WORDS, max_size=12).map(" ".join) | TEXTS)
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    """With the error agreed on, and never slowly."""
    try:
        found = compiled(text)
    except InvalidFilter as error:
        assert 0 <= error.column <= len(text)  # noqa: PT017  # not every text raises
    else:
        json.loads(found.terms)
