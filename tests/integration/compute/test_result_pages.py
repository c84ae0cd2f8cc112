"""Pages of results as Arrow parses them: the same as the rows of Python, whatever is in them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest

from taskq import Campaign, Client, Seed
from taskq.compute import frames
from taskq.compute.frames import ResultPages
from taskq.compute.run import Run
from taskq.compute.trust import ResultReader
from taskq.model.errors import ResultNotTrusted
from taskq.results import tabular
from tests.fixtures.queues import Hire
from tests.helpers.variants import rest_thorough
from tests.payloads import called

pytestmark = pytest.mark.both_transports

#: Rows of a page, and pages of a campaign; the first two pages and the first row of the third
#: decide about columns.
PAGE, PAGES = 10, 8
Change = Callable[[dict[str, Any], dict[str, Any]], object]

#: What makes a result unlike the others, and whether Arrow reads its page all the same.
UNLIKE: Mapping[str, tuple[Change, bool]] = {
    "beyond doubles": (lambda _, r: r.update(score=2**53 + 1), False),
    "nothing": (lambda _, __: None, True),
    "text": (lambda p, _: p.update(name='é"\\\n\t\u2028😀'), True),
    "numbers": (lambda _, r: r.update(n=-(2**63), score=0.1 + 0.2), True),
    "whole score": (lambda _, r: r.update(score=2**52), True),
    "no fields": (lambda p, r: (p.clear(), r.clear()), True),
    "null": (lambda p, r: (p.update(name=None), r.update(score=None)), True),
    "instant as text": (lambda p, _: p.update(name="2026-11-23T00:00:00Z"), True),
    "more fields": (lambda p, r: (p.update(new=1), r.update(also=[1])), False),
    "null of no column": (lambda _, r: r.update(new=None), False),
    "number as text": (lambda _, r: r.update(score="1"), False),
    "text as number": (lambda p, _: p.update(name=5), False),
    "truth as number": (lambda _, r: r.update(n=True), False),
    "number as truth": (lambda _, r: r.update(good=0), False),
    "fraction": (lambda _, r: r.update(n=1.5), False),
    "beyond int64": (lambda _, r: r.update(n=2**63), False),
    "huge": (lambda _, r: r.update(score=10**400), False),
    "not a number": (lambda _, r: r.update(score={"$float": "nan"}), False),
    "beyond floats": (lambda _, r: r.update(score={"$decimal": "1e99999999"}), False),
    "signalling": (lambda _, r: r.update(score={"$decimal": "sNaN"}), False),
    "tuple": (lambda p, _: p.update(name={"$tuple": [1, 2]}), False),
    "nested": (lambda p, _: p.update(name={"x": [1, None]}), False),
    "field of the other": (lambda _, r: r.update(name="x"), False),
    "several arguments": (lambda p, _: (p.clear(), p.update(args=[1, 2])), False),
    "single value": (lambda _, r: (r.clear(), r.update(value=7)), False),
}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some rows be many."""
    monkeypatch.setattr(frames, "PAGE", PAGE)
    for module in (frames, tabular):
        monkeypatch.setattr(module, "SAMPLE_RECORDS", 2 * PAGE)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Collect of each page behind the head whether Arrow has parsed it."""
    found: list[bool] = []
    parse = ResultPages.parsed

    def noting(pages: ResultPages, schema: Any, reader: Any) -> Any:
        page = parse(pages, schema, reader)
        if page is not None:
            found.append(not isinstance(page, chain))
        return page

    monkeypatch.setattr(ResultPages, "parsed", noting)
    return found


def run_of(queue: Client, campaign: Campaign, hire: Hire, change: Change, at: int) -> Run:
    """Return a run of which one result is unlike the others."""
    made = []
    for number in range(PAGE * PAGES):
        payload: dict[str, Any] = {"name": f"m{number}"}
        result = {"score": number / 8, "n": number, "good": number % 2 == 0}
        if number == at:
            change(payload, result)
        made.append((payload, result))
    campaign.seed(Seed(payload, f"k{number}") for number, (payload, _) in enumerate(made))
    agent = hire()
    tasks = agent.claim(len(made))
    for task, (_, result) in zip(tasks, made, strict=True):
        agent.done(task, result)
    mine = array("q", [task.task for number, task in enumerate(tasks) if number % 7])
    return Run(queue.queries, campaign, "f", mine, read=ResultReader(), agents=[])


@pytest.mark.parametrize(("change", "plain"), rest_thorough(UNLIKE.values(), 3), ids=UNLIKE)
def test_arrow_reads_what_python_reads(
    queue: Client,
    campaign: Campaign,
    hire: Hire,
    parsed: list[bool],
    transport: str,
    monkeypatch: pytest.MonkeyPatch,
    change: Change,
    plain: bool,
) -> None:
    """Names, types, values and order; one page that is not plain costs the others nothing."""
    run = run_of(queue, campaign, hire, change, at=PAGE * 5 + 2)
    table = run.arrow(batch_rows=25).read_all()
    if transport == "postgresql":
        assert parsed == [True, True, plain, True, True]
    else:
        assert not any(parsed)
    assert table.num_rows == len(run)
    assert {batch.num_rows for batch in run.arrow(25)} == {25, len(run) % 25}
    monkeypatch.setattr(frames, "_MOST_MISSES", 0)
    slow = run.arrow(25).read_all()
    assert table.schema == slow.schema
    assert table.to_pylist() == slow.to_pylist()


@pytest.mark.parametrize(
    "change",
    [UNLIKE["field of the other"][0], UNLIKE["tuple"][0], lambda _, r: r.update({"a.b": 1})],
)
def test_head_that_is_not_plain_is_read_by_python(
    queue: Client, campaign: Campaign, hire: Hire, parsed: list[bool], change: Change
) -> None:
    """Since the names of columns depend on the row, or its values are no JSON."""
    run = run_of(queue, campaign, hire, change, at=1)
    assert run.arrow().read_all().num_rows == len(run)
    assert len(parsed) == 5
    assert not any(parsed)


def test_pickle_behind_plain_results_is_not_trusted(
    queue: Client, campaign: Campaign, hire: Hire
) -> None:
    """Anyone who has read the pages before it."""
    pickled = {
        "$pickle": ["posix:system", "gASVHwAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjARldmlslIWUUpQu"]
    }
    run = run_of(queue, campaign, hire, lambda _, r: r.update(n=pickled), at=PAGE * 6)
    with pytest.raises(ResultNotTrusted):
        run.arrow().read_all()


READERS: dict[str, Callable[..., list[Any]]] = {
    "frame": lambda run, **how: run.frame(**how)["n"].to_list(),
    "arrow": lambda run, **how: run.arrow(**how).read_all().column("n").to_pylist(),
}


@pytest.mark.parametrize("kind", READERS)
def test_rows_are_read_once_all_calls_have_ended(
    queue: Client, campaign: Campaign, hire: Hire, kind: str
) -> None:
    """Else the best of some would be taken for the best of all; `so_far` gives what is done."""
    rows = READERS[kind]
    campaign.seed(Seed({}, f"k{number}") for number in range(4))
    agent = hire()
    first, second, third, last = agent.claim(4)
    mine = array("q", [task.task for task in (first, second, third, last)])
    run: Run[Any] = Run(queue.queries, campaign, "f", mine, read=ResultReader(), agents=[])
    agent.done(first, {"n": 1})
    agent.done(third, {"n": 3})
    with pytest.raises(TimeoutError, match="2 tasks unfinished"):
        rows(run, timeout=0.05)
    assert rows(run, so_far=True) == [1, 3]
    with ThreadPoolExecutor(1) as waiting:
        reading = waiting.submit(rows, run, timeout=60)
        agent.done(second, {"n": 2})
        agent.done(last, {"n": 4})
        assert reading.result() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", READERS)
def test_calls_without_a_row_are_warned_of(
    queue: Client, campaign: Campaign, hire: Hire, kind: str
) -> None:
    """Failed and cancelled ones, of this run alone."""
    campaign.seed(Seed({}, f"k{number}") for number in range(5))
    agent = hire()
    done, failed, cancelled, *others = agent.claim(5)
    agent.done(done, {"n": 1})
    for task in (failed, others[0]):
        agent.fail(task, retry=False)
    campaign.cancel(["k2", "k4"])
    mine = array("q", [task.task for task in (done, failed, cancelled)])
    run: Run[Any] = Run(queue.queries, campaign, "f", mine, read=ResultReader(), agents=[])
    with pytest.warns(UserWarning, match=r"2 of the 3 calls .*1 failed and 1 cancelled") as said:
        assert READERS[kind](run, timeout=60) == [1]
    assert len(said) == 1
    assert READERS[kind](run, so_far=True) == [1]


@pytest.mark.thorough
def test_seconds_are_those_of_the_execution(served_queue: Client) -> None:
    """Not the time between claim and report, which may be that of a call before it."""
    run = served_queue.map(called.square, range(3), name="/seconds")
    rows = {result.key: result for result in run.campaign.results()} if run.wait(120) else {}
    for outcome in run.outcomes():
        stored = rows[outcome.key]
        assert stored.phases is not None
        assert outcome.seconds == stored.phases["run_s"]
    assert list(run.frame()["seconds"]) == [outcome.seconds for outcome in run.outcomes()]
