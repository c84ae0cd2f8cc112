"""docs/handlers.md names every class of error that the agent gives of itself, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import taskq_agent
from taskq_agent.protocol import OUT_OF_MEMORY, TIME_LIMIT
from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs/handlers.md").read_text(encoding="utf-8")
SOURCES = Path(taskq_agent.__file__).parent
# The first argument of failed(), broken() or refused(), or a refusal, when that is a text.
GIVEN = re.compile(
    r'(?:failed|broken|refused)\(\s*f?"([a-z-]+(?:\{\w+\})?)"|'
    r'NODE_BROKEN, "([a-z-]+)"|"error_class"\) or "(\w+)"'
)


def test_classes_of_error_are_those_of_the_code() -> None:
    """A class that is new in the code is new on the page, and one that is gone there goes."""
    _, _, table = PAGE.partition("### Classes of error")
    rows = re.findall(r"^\| (`.*?`) \| ", table.partition("\n## ")[0], re.MULTILINE)
    documented = {name for row in rows for name in re.findall("`([^`]+)`", row)}
    given = {
        next(filter(None, found)).partition("{")[0]
        for source in SOURCES.rglob("*.py")
        for found in GIVEN.findall(source.read_text(encoding="utf-8"))
    }
    of_the_queue = {"agent-lost", "poison", "salvaged", "report-refused", "too-long"}
    of_the_queue |= {"payload-unreadable", "job-out-of-memory", "job-node-failed"}
    of_the_queue |= {"job-out-of-time", "job-preempted", "job-cancelled"}
    handed_back = {"out-of-time", "continued", "checkpoint-unreachable", "queue-unreachable"}
    by_limit = {OUT_OF_MEMORY, TIME_LIMIT}
    known = {re.sub(r"^(exit-|signal-).*", r"\1", name) for name in documented}
    assert known - of_the_queue - handed_back - by_limit == given - of_the_queue
