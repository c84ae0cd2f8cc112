"""Which tasks match a filter, wherever they are kept, and what it costs to find them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskq import Campaign, Seed, connect
from taskq.campaign.bulk import PAGE, pages
from taskq.campaign.filter_compiler import compiled
from taskq.campaign.filter_terms import And, FieldComparison, Not, Or, Term
from taskq.db.catalogue import statement
from tests.fixtures.databases import fresh_database
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, value

PAYLOADS: list[dict[str, Any]] = [
    {},
    {"x": 1, "s": "abc", "deep": {"x": 2}},
    {"x": 1.5, "s": "ABC", "deep": {"x": "2"}},
    {"x": "1", "s": "a.c", "deep": [{"x": 1}, {"x": 3}]},
    {"x": None, "s": "", "deep": []},
    {"x": True, "s": "日本", "deep": {"x": {}}},
    {"x": [1, 2], "s": ["abc", "x"], "deep": None},
    {"x": [], "s": "%_\\", "deep": {"x": [None]}},
    {"x": {"1": 1}, "s": "abcabc", "deep": 3},
    {"x": 10**30, "s": "\n", "deep": {"x": -1e-9}},
    {"x": -1, "s": '"; drop', 'a"b\\ c.d': 1},
]
FIELDS = st.sampled_from(
    [("payload", "x"), ("payload", "s"), ("payload", "deep", "x"), ("payload", 'a"b\\ c.d')]
)
NUMBERS = st.sampled_from(["1", "1.0", "-1", "2", "1.5", "1e30", "-1e-9", "0"]).map(Decimal)
TEXTS = st.sampled_from(["abc", "a.c", "bc", "", "1", "日", "\n", "%_\\", '"; drop', "x"])
SCALARS = NUMBERS | TEXTS | st.booleans()
COMPARISONS = st.one_of(
    st.builds(FieldComparison, FIELDS, st.just("="), st.tuples(SCALARS | st.none())),
    st.builds(
        FieldComparison, FIELDS, st.sampled_from(["<", "<=", ">", ">="]), st.tuples(NUMBERS | TEXTS)
    ),
    st.builds(FieldComparison, FIELDS, st.just("~"), st.tuples(TEXTS.filter(bool))),
    st.builds(FieldComparison, FIELDS, st.just("in"), st.lists(SCALARS, min_size=1).map(tuple)),
)
TERMS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)


def text(term: Term) -> str:
    """Write a term as a filter."""
    if isinstance(term, Not):
        return f"not ({text(term.term)})"
    if isinstance(term, And | Or):
        word = " and " if isinstance(term, And) else " or "
        return f"({word.join(map(text, term.terms))})"
    first, *names = term.field
    field = ".".join([first, *(quoted(name) for name in names)])
    values = [quoted(item) for item in term.values]
    right = f"({', '.join(values)})" if term.operator == "in" else values[0]
    return f"{field} {term.operator} {right}"


def quoted(item: object) -> str:
    """Write a value as in a filter."""
    if isinstance(item, str):
        escaped = item.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(item) if isinstance(item, Decimal) else json.dumps(item)


def is_true(term: Term, task: dict[str, Any]) -> bool:
    """Tell what docs/manager.md says of a term and a task."""
    if isinstance(term, Not):
        return not is_true(term.term, task)
    if isinstance(term, And):
        return all(is_true(condition, task) for condition in term.terms)
    if isinstance(term, Or):
        return any(is_true(condition, task) for condition in term.terms)
    found: list[Any] = [task]
    for name in term.field:
        found = [
            element[name]
            for element in elements(found)
            if isinstance(element, dict) and name in element
        ]
    if term.values == (None,):
        return all(item is None for item in found)
    return any(
        is_so(element, term.operator, wanted)
        for element in elements(found)
        for wanted in term.values
    )


def elements(found: list[Any]) -> list[Any]:
    """Return values, with the elements of lists in the place of lists."""
    return [two for item in found for two in (item if isinstance(item, list) else [item])]


def is_so(item: Any, operator: str, wanted: Any) -> bool:
    """Compare two values of one kind; those of two kinds are never so."""
    kinds = (bool, (int, float, Decimal), str)
    kind = [next((k for k in kinds if isinstance(it, k)), None) for it in (item, wanted)]
    if kind[0] is None or kind[0] != kind[1]:
        return False
    if isinstance(item, float):
        item = Decimal(repr(item))
    return {
        "=": item == wanted,
        "in": item == wanted,
        "<": item < wanted,
        "<=": item <= wanted,
        ">": item > wanted,
        ">=": item >= wanted,
        "~": isinstance(item, str) and isinstance(wanted, str) and wanted in item,
    }[operator]


@pytest.fixture(scope="module")
def varied(server_dsn: str, template: str) -> Iterator[Campaign]:
    """Give a campaign with a task of each payload."""
    with fresh_database(server_dsn, template) as dsn, connect(dsn) as queue:
        campaign = queue.create_campaign("/varied")
        campaign.seed(Seed(payload, str(n)) for n, payload in enumerate(PAYLOADS))
        yield campaign


@pytest.mark.thorough
@settings(max_examples=150)
@given(term=TERMS)
def test_filter_means_what_is_documented(term: Term, varied: Campaign) -> None:
    """Of every payload: fields that are not there, lists, values of other kinds."""
    found = {int(task.key) for task in varied.tasks(where=text(term))}
    wanted = {n for n, record in enumerate(PAYLOADS) if is_true(term, {"payload": record})}
    assert found == wanted, text(term)


@pytest.fixture
def standing(campaign: Campaign, hire: Hire) -> Campaign:
    """Give tasks in all states: a waits, b runs in a bundle, c runs in a row, d is done, ..."""
    seeds = [Seed({"n": n}, key) for n, key in enumerate("dfelbwca")]
    campaign.seed([*seeds, Seed({}, "cancelled"), Seed({}, "waits")])
    near, far = hire(), hire(host="far")
    tasks = {task.key: task for task in near.claim(4)}
    near.done(tasks["d"], {"score": -7.5, "name": "x"})
    near.report(
        tasks["f"], "failed", error_class="exit-3", error="no\nspace", exit_code=3, retry=False
    )
    near.fail(tasks["e"], "Timeout", retry=True)
    near.fail(tasks["l"], "Timeout", retry=False)
    far.claim(2)
    far.claim(1)
    campaign.cancel(["cancelled"])
    return campaign


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ('state = "waiting"', "a waits"),
        ('state = "working"', "b w c"),
        ('state in ("working", "delayed")', "b w c e"),
        ('state = "cancelled"', "cancelled"),
        ('state = "done"', "d"),
        ('state = "failed"', "f l"),
        ("attempts = 0", "a waits cancelled"),
        ("attempts >= 1 and failures < 1", "d b w c"),
        ("failures = 1", "f e l"),
        ('class = "exit-3"', "f"),
        ("exit_code = 3", "f"),
        ('error ~ "no\\nsp"', "f"),
        ('error ~ "broke" and state != "failed"', "e"),
        ('class = null and host = "node1"', "d"),
        ('host = "far"', "b w c"),
        ("host = null", "a waits cancelled"),
        ('site = "here" and not host in ("far")', "d f e l"),
        ('result.score < -7 and result.name = "x"', "d"),
        ("result.score = null", "f e l b w c a cancelled waits"),
        ("key > 'b' and key <= 'd'", "c d cancelled"),
        ("payload.n in (1, 2)", "f e"),
        ("priority = 0 and losses = 0 and key ~ 'wait'", "waits"),
        ('state = "failed" and state = "done"', ""),
    ],
)
def test_fields_are_those_of_the_task_and_its_last_attempt(
    where: str, keys: str, standing: Campaign
) -> None:
    """Wherever it is kept."""
    assert {task.key for task in standing.tasks(where=where)} == set(keys.split())


def test_matching_task_is_shown_as_any_other(standing: Campaign) -> None:
    """With the same words, in the same order."""
    assert list(standing.tasks(where="attempts >= 0")) == list(standing.tasks())
    for status in ("waiting", "working", "delayed", "done", "failed", "cancelled"):
        assert list(standing.tasks(status, where="losses = 0")) == list(standing.tasks(status))
    assert list(standing.results(where="result.score < 0")) == list(standing.results())
    assert list(standing.results(where="result.score > 0")) == []


@pytest.mark.thorough
def test_texts_and_names_of_a_filter_reach_the_json_path_as_literals(postgres: Postgres) -> None:
    """Whatever is in a text or in the name of a field, it ends neither."""
    hostile = "') || true; drop table taskq.task --"
    evil = json.dumps(hostile)
    found = compiled(f"payload.{evil} = {evil} and error ~ {evil}")
    path = value(postgres, "select taskq.filter_path(%s)::jsonpath::text", found.terms)
    assert re.sub(r'"(?:[^"\\]|\\.)*"', "", path) == (
        "(exists ($..?(@ == $[1][2 to last])) && exists ($.?(@ like_regex  flag )))"
    )


@pytest.mark.parametrize(
    "terms",
    [
        "null",
        "[]",
        '["=", ["key"]',
        '["$.** == 1"]',
        '["not"]',
        '["not", ["and"], ["and"]]',
        '["or"]',
        '["=", "key", 1]',
        '["=", [], 1]',
        '["like_regex", ["key"], "(a*)*\\\\1"]',
        json.dumps(["and", *[["=", ["key"], "x"]] * 101]),
        json.dumps(["and", *[["~", ["key"], "x"]] * 21]),
        '["not", ' * 52 + '["and"]' + "]" * 52,
        json.dumps(["=", ["key"], *["x" * 1_000] * 132]),
    ],
)
def test_server_takes_nothing_but_filters(postgres: Postgres, terms: str) -> None:
    """Anyone who sends them: a path of one's own may have back-references, or walk for hours."""
    with pytest.raises((psycopg.errors.DatabaseError,)) as caught:
        postgres.execute("select taskq.filter_path(%s)", (terms,))
    assert caught.value.sqlstate in {"TQ400", "22P02"}


@pytest.mark.thorough
@pytest.mark.parametrize("states", [["waiting", "done"], ["waiting"], ["failed"], ["done"]])
def test_page_reads_no_more_than_its_tasks(
    states: list[str], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Whatever matches, and however many there are: here none of 4,000."""
    campaign.seed({"n": n} for n in range(4_000))
    agent = hire()
    for n, task in enumerate(agent.claim(1_000)):
        if n % 2:
            agent.done(task)
        else:
            agent.fail(task, retry=False)
    found = compiled("payload.n < 0 and error ~ 'x' and result.y = 1")
    values = {
        "campaign": campaign.campaign_id,
        "filter": found.terms,
        "states": states,
        "parts": sorted(found.parts),
        "payloads": True,
        "tasks": None,
        "after": value(postgres, "select min(task_id) + 100 from taskq.spec"),
        "limit": 50,
    }
    postgres.execute(statement("find_tasks"), values)
    with watched(postgres) as seen:
        (row,) = postgres.execute(statement("find_tasks"), values).fetchall()
    assert (row["looked"], row["matches"]) == (50, False)
    assert max(access.rows for access in seen.accesses) <= 100


def test_page_passes_few_tasks_of_another_status(campaign: Campaign, postgres: Postgres) -> None:
    """Though many lie before those in question, which the pages behind it reach."""
    for n in range(30):
        campaign.seed(Seed({"n": n}, f"{n}-{m}") for m in range(3))
    campaign.cancel(["29-1"])
    asked = compiled(None)
    values = {
        "campaign": campaign.campaign_id,
        "filter": asked.terms,
        "states": ["cancelled"],
        "parts": sorted(asked.parts),
        "payloads": False,
        "tasks": None,
        "after": 0,
        "limit": 5,
    }
    with watched(postgres) as seen:
        (row,) = postgres.execute(statement("find_tasks"), values).fetchall()
    assert (row["looked"], row["matches"]) == (5, False)
    assert max(access.rows for access in seen.accesses) <= 10
    assert [task.key for task in campaign.tasks("cancelled", where="attempts = 0")] == ["29-1"]


@pytest.mark.thorough
def test_pages_go_through_all_tasks_once(campaign: Campaign, hire: Hire) -> None:
    """In the order of seeding, from spans, bundles and rows."""
    campaign.seed({"n": n} for n in range(3 * PAGE))
    agent = hire()
    for _ in range(2):
        agent.claim(700)  # so a page ends within a bundle
    agent.claim_singly(5)
    campaign.cancel([task.key for task in list(campaign.tasks("waiting"))[::7]])
    for states in (["waiting"], ["working"], ["waiting", "working", "cancelled"]):
        found = [
            task
            # As many as there may be, if a page began where the last one did.
            for page in islice(
                pages(campaign._subtree.database, campaign.campaign_id, compiled(None), states),  # noqa: SLF001
                20,
            )
            for task in page.tasks
        ]
        assert found == [task.task_id for task in campaign.tasks() if task.status in states]
