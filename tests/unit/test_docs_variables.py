"""docs/cli.md says every variable of the environment that taskq reads."""

from __future__ import annotations

import re

from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
READ = re.compile(r'(?:environ(?:\.get\(|\[)|envvar=)"(\w+)"')
NAMED = re.compile(r'(?:_VARIABLE|ENVIRONMENT)(?:: Final)? = "(TASKQ_\w+)"')


def test_every_variable_that_is_read_is_on_the_page() -> None:
    """And none that is not."""
    read: set[str] = set()
    for folder in ("taskq", "cli", "agents"):
        for source in (ROOT / folder).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            read |= {name for name in READ.findall(text) if name.startswith("TASKQ_")}
            read |= set(NAMED.findall(text))
    told_to_children = {"TASKQ_RESULT", "TASKQ_INPUTS", "TASKQ_CHECKPOINT", "TASKQ_PROGRESS"}
    documented = set(re.findall(r"^\| `(TASKQ_\w+)` \|", PAGE, re.MULTILINE))
    assert documented == read - told_to_children
