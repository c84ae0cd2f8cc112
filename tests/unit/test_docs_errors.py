"""docs/errors.md names every exception, exit code, class of error and code of SQL and HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import taskq_agent
from taskq.dispatch.campaign_faults import UNREADABLE_CLASS
from taskq.gateway import errors as gateway
from taskq.model.errors import BY_SQLSTATE, TaskqError
from taskq_agent import exit_codes, protocol
from taskq_agent.handlers.exits import NO_OUTCOME
from taskq_cli import early_exits
from tests.helpers.errors_page import PAGE, exceptions, page
from tests.helpers.paths import ROOT

TEXT = PAGE.read_text(encoding="utf-8")
# Classes in the agent's code: the first argument of failed(), broken() and so on, or a refusal.
OF_AGENTS = re.compile(
    r'(?:failed|broken|refused|handed_back)\(\s*f?"([a-z-]+)|NODE_BROKEN, "([a-z-]+)"|'
    r'error_class="([a-z-]+)"|"error_class"\) or "(\w+)"'
)
# Those in SQL: a member of a report, the result of a `case`, or the column after an outcome.
OF_THE_QUEUE = re.compile(
    r"'error_class', '([a-z-]+)'|then '((?:[a-z]+-)+[a-z]+|poison)'|'hedged', '(hedged)'|"
    r"'cancelled', '(salvaged)'"
)


def section(title: str) -> str:
    """Return what the page says below a heading."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def cells(title: str, column: int) -> Iterator[str]:
    """Yield the cells of a column of the tables below a heading."""
    for row in re.findall(r"^\|(.*)\|$", section(title), re.MULTILINE):
        yield row.split("|")[column].strip()


def every(kind: type[TaskqError]) -> Iterator[type[TaskqError]]:
    """Yield an exception and all its kinds that are imported."""
    yield kind
    for error in kind.__subclasses__():
        yield from every(error)


def test_table_of_exceptions_is_that_of_their_texts() -> None:
    """`make schema` writes it."""
    assert page() == TEXT, "run `make schema`"
    assert all((error.__doc__ or "").count(".") for error in exceptions())


def test_exit_codes_are_those_of_the_code() -> None:
    """Of commands, of agents, and of `taskq-agent try`."""
    assert issubclass(early_exits.TimedOut, TaskqError)
    raised = {
        error.exit_code for error in every(TaskqError) if error.__module__.startswith("taskq")
    }
    agents = {value for name, value in vars(exit_codes).items() if name.isupper()}
    tried = {os.EX_OK, os.EX_UNAVAILABLE, os.EX_TEMPFAIL, os.EX_DATAERR}
    documented = {int(code) for code in cells("Exit codes", 0) if code.isdecimal()}
    assert documented == raised | agents | tried


def test_classes_of_error_are_those_of_the_code() -> None:
    """A class that is new in the code is new on the page, and one that is gone there goes."""
    agents = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "agents" / taskq_agent.__name__).rglob("*.py")
    )
    queue = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "sql/functions").rglob("*.sql")
    )
    given = {"".join(found) for found in OF_AGENTS.findall(agents)}
    given |= {"".join(found) for found in OF_THE_QUEUE.findall(queue)}
    given |= {
        protocol.OUT_OF_TIME,
        protocol.CONTINUED,
        protocol.OUT_OF_MEMORY,
        protocol.OUTPUT_TOO_LARGE,
        protocol.RESULT_INCOMPLETE,
    }
    given |= {UNREADABLE_CLASS, NO_OUTCOME}
    named = {name for cell in cells("Classes of error", 0) for name in re.findall("`(.+?)`", cell)}
    assert {re.sub(r"^(exit-|signal-).*", r"\1", name) for name in named} == given


def test_codes_of_sql_and_http_are_those_of_the_code() -> None:
    """Each with the exception that it becomes."""
    rows = list(zip(*(cells("SQL and HTTP", column) for column in (0, 1, 2)), strict=True))
    by_state = {row[0].strip("`"): row[2].strip("`") for row in rows if row[0].startswith("`")}
    assert by_state == {state: kind.__name__ for state, kind in BY_SQLSTATE.items()}
    answers = {f"{status} `{code}`" for _, status, code in gateway.KNOWN}
    answers |= {"503 `upgraded`", "500 `defect`", "429 `busy`", "408 `too_slow`"}
    assert {row[1] for row in rows} - {"HTTP", "---"} == answers
