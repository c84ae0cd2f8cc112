"""The page about SQL says each function that a role may call, and its example can be typed."""

from __future__ import annotations

import re
import subprocess

from taskq import Client
from taskq.db.catalogue import ROLES, granted_functions
from tests.helpers.errors_page import PAGE as ERRORS
from tests.helpers.psql import psql_program
from tests.helpers.sql_page import PAGE, ROOT, offered, page

TEXT = PAGE.read_text(encoding="utf-8")


def test_page_of_the_site_has_each_function_that_a_role_may_call() -> None:
    """With its parameters, its result and its errors; and what a gateway runs."""
    made = page()
    assert re.findall(r"^### (\w+)$", made, re.MULTILINE) == granted_functions(ROLES)
    for function in granted_functions(ROLES):
        assert f": `{function}(" in made, function
        assert f"```text\n{function}(" in made, function
    assert offered() in made
    assert "<!--" not in made


def test_page_of_errors_has_each_code() -> None:
    """But of those that functions raise for themselves, to undo what they did, and catch."""
    raised = set()
    for path in (ROOT / "sql").rglob("*.sql"):
        source = path.read_text(encoding="utf-8")
        caught = re.findall(r"when sqlstate '(\w{5})'", source)
        raised |= set(re.findall(r"errcode = '(\w{5})'", source)).difference(caught)
    errors = ERRORS.read_text(encoding="utf-8").partition("\n## SQL and HTTP\n")[2]
    assert raised == set(re.findall(r"`(TQ\d{3}|\d\d[0-9A-Z]{3})`", errors))


def test_example_runs_in_psql(queue: Client, dsn: str) -> None:
    """A task is made, claimed and done by the verbs alone."""
    (example,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    done = subprocess.run(
        [psql_program(), "-X", "-q", "-v", "ON_ERROR_STOP=1", dsn],
        input=example,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    status = queue.campaign("/demo/sql").status()
    assert (status.done, status.waiting) == (1, 1)
