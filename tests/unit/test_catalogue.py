"""The catalogue: a file's header says all about a statement, or the statement does not load."""

from __future__ import annotations

import re

import pytest

from taskq.db.catalogue import (
    PLANS,
    all_statements,
    definition,
    find,
    parsed,
)
from taskq.db.headers import BadStatement, Offer
from taskq.db.sql_files import files_of

FUNCTION = """-- f(path, tasks, most): does something.
{header}
create or replace function taskq.f(
    p_path text, p_tasks bigint[],
    p_at numeric(10, 2) default null,
    out moved integer, out last bigint
)
language plpgsql
"""


@pytest.mark.parametrize("name", sorted(all_statements()))
def test_each_statement_is_whole(name: str) -> None:
    """It loads alone, and what it gives is what its own file says."""
    statement = find(name)
    assert statement == all_statements()[name]
    if statement.offer is not None:
        # `permit` does not learn these.
        assert statement.parameters.keys().isdisjoint({"paths", "campaigns", "beats", "hellos"})
        assert (
            statement.offer.instead is None
            or find(statement.offer.instead).rights == statement.rights
        )
        assert statement.is_for("manager")
    if statement.on_standby and statement.is_function:
        text = files_of("functions")[name].read_text("utf-8")
        reads = re.search(r"^language \w+ (stable|immutable)\b", text, re.MULTILINE)
        assert reads, "a standby writes nothing"


def test_function_is_called_by_its_signature() -> None:
    """Each value is a parameter, with the type that the function takes."""
    header = (
        "-- @roles manager\n-- @gateway submitter, wakes, up to 5\n-- @repeat once\n-- @act ban"
    )
    statement = parsed("f", FUNCTION.format(header=header), is_function=True)
    assert statement.text == (
        "select moved, last from taskq.f("
        "%(path)s::text, %(tasks)s::bigint[], %(at)s::numeric(10, 2))"
    )
    assert dict(statement.parameters) == {
        "path": "text",
        "tasks": "bigint[]",
        "at": "numeric(10, 2)",
    }
    assert statement.offer == Offer("submitter", wakes=True, most=5)
    assert (statement.is_repeatable, statement.on_standby, statement.is_function) == (
        False,
        False,
        True,
    )
    assert [role for role in ("manager", "submitter", "agent") if statement.is_for(role)] == [
        "manager"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("set_status", "select taskq.set_status("),
        ("attempts", "select attempt, outcome, claimed_at,"),
        ("exchange", "select acks, tasks, refused, revision, spent, avoided from taskq.exchange("),
    ],
)
def test_results_have_names(name: str, text: str) -> None:
    """Those of a table, of `out` parameters, or the function's own."""
    assert find(name).text.startswith(text)


@pytest.mark.parametrize(
    ("header", "line", "says"),
    [
        ("", 1, "@roles is missing"),
        ("-- @roles", 2, "@roles says nothing"),
        ("-- @roles king", 2, "@roles does not know king"),
        ("-- @role reader", 2, "@role is not known"),
        ("-- @roles owner\n-- @roles reader", 3, "@roles is there twice"),
        ("-- @roles reader", 1, "@standby is missing"),
        ("-- @roles all\n-- @standby yes", 1, "@gateway is missing"),
        ("-- @roles operator", 1, "@gateway is missing"),
        ("-- @roles operator\n-- @gateway manager", 1, "@repeat is missing"),
        ("-- @roles reader\n-- @standby perhaps\n-- @gateway no", 3, "@standby is yes or no"),
        ("-- @roles operator\n-- @gateway manager, once", 3, "@gateway does not know 'once'"),
        ("-- @roles operator\n-- @gateway king", 3, "@gateway is manager, submitter or no"),
        ("-- @roles operator\n-- @gateway no", 1, "@act is missing"),
        ("-- @roles operator\n-- @gateway no\n-- @act hop", 4, "@act does not know hop"),
        ("-- @roles operator\n-- @gateway no\n-- @act no:", 4, "@act does not know no:"),
        ("-- @roles owner\n-- @act no: x", 3, "@act does not apply to such a statement"),
        ("-- @roles owner\n-- @repeat once", 3, "@repeat does not apply to such a statement"),
        ("-- @roles serving\n-- @standby yes", 3, "@standby does not apply"),
    ],
)
def test_header_that_does_not_say_all_does_not_load(header: str, line: int, says: str) -> None:
    """With a line that names the file and the place: nothing is taken for granted."""
    with pytest.raises(BadStatement, match=f"f.sql, line {line}: {says}"):
        parsed("f", f"-- What it does.\n{header}\nselect 1", is_function=False)


def test_function_without_a_header_is_not_called_by_name() -> None:
    """Nor is what is no name of a statement looked for elsewhere."""
    for name in ("settle", "nothing", "../rights", "queries/counts", "Counts", ""):
        with pytest.raises(BadStatement, match="there is no statement"):
            find(name)
    with pytest.raises(BadStatement, match="not one function g"):
        parsed("g", FUNCTION.format(header="-- @roles owner"), is_function=True)


def test_function_gets_its_rights_and_its_plan() -> None:
    """Owner's rights and a fixed search path if a role runs it; the settings of its plan."""
    text = FUNCTION + "set enable_sort = off\nas $$\nbegin\nend\n$$;\n"
    installed = definition("f", text.format(header="-- @roles owner\n-- @plan by-key generic"))
    assert installed.partition("language plpgsql\n")[2].partition("as $$\n")[0].splitlines() == [
        "set enable_sort = off",
        "security definer",
        "set search_path = pg_catalog, pg_temp",
        "set plan_cache_mode = force_generic_plan",
        *(f"set {name}" for name in PLANS["by-key"]),
    ]
    inlined = text.format(header="-- @roles owner").replace("plpgsql", "sql immutable")
    assert definition("f", inlined) == inlined
    internal = text.format(header="-- @plan no-jit")
    assert definition("f", internal) == internal.replace("as $$", "set jit = off\nas $$", 1)
    assert definition("f", text.format(header="--")) == text.format(header="--")


@pytest.mark.parametrize(
    ("header", "line", "says"),
    [
        ("-- @plan by-luck", 2, "@plan does not know by-luck"),
        ("-- @standby yes", 2, "@standby does not apply to such a statement"),
        ("-- @role reader", 2, "@role is not known"),
        ("-- @plan generic", 1, "this is not a function with a body"),
    ],
)
def test_function_with_a_wrong_header_is_not_installed(header: str, line: int, says: str) -> None:
    """Even one that no role may run, which is never looked up by name."""
    with pytest.raises(BadStatement, match=f"f.sql, line {line}: {says}"):
        definition("f", FUNCTION.format(header=header))
