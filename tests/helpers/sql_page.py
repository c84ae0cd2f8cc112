"""The page of the site about the queue in SQL: docs/sql.md with the text of each function.

`python -m tests.helpers.sql_page` prints it. The texts are the headers of the files in
sql/functions and sql/queries.
"""

from __future__ import annotations

import re
import sys

from taskq.db.catalogue import ROLES, Statement, all_statements
from taskq.db.sql_files import files_of
from tests.helpers.paths import ROOT

PAGE = ROOT / "docs/sql.md"
MARK = re.compile(r"<!-- (offered|functions): .* -->\n")
OFFERED = """Token: the least kind for it. Once: clients do not repeat it after its answer was lost.

| Statement | Token | Parameters |
|---|---|---|
"""


def functions() -> str:
    """Return the sections of the functions that some role may execute, in alphabetical order."""
    known = sorted(all_statements().values(), key=lambda statement: statement.name)
    return "\n".join(
        _section(statement) for statement in known if statement.is_function and statement.rights
    )


def offered() -> str:
    """Return the table of what a gateway runs for managers."""
    lines = []
    for statement in sorted(all_statements().values(), key=lambda statement: statement.name):
        if statement.offer is not None:
            token = statement.offer.kind + ("" if statement.is_repeatable else "; once")
            parameters = ", ".join(f"`{name}`" for name in statement.parameters)
            lines.append(f"| `{statement.name}` | {token} | {parameters} |\n")
    return OFFERED + "".join(lines)


def page() -> str:
    """Return the page of the site."""
    parts = {"offered": offered, "functions": functions}
    return MARK.sub(lambda mark: parts[mark[1]](), PAGE.read_text(encoding="utf-8"))


def _section(statement: Statement) -> str:
    source = files_of("functions")[statement.name].read_text(encoding="utf-8")
    head = re.match(r"(?:--.*\n)+", source)
    form = r"create or replace function taskq\.\w+\((.*?)\)\n(.*?)language"
    found = re.search(form, source, re.DOTALL)
    assert head is not None, statement.name
    assert found is not None, statement.name
    said = re.sub(r"^-- @.*\n", "", head[0], flags=re.MULTILINE)
    said = re.sub(r"^-- ?", "", said, flags=re.MULTILINE)
    parameters = ", ".join(
        line.strip().rstrip(",") for line in found[1].splitlines() if line.strip()
    )
    returns = f" {' '.join(found[2].split())}" if found[2].strip() else ""
    roles = ", ".join(role for role in ROLES if statement.is_for(role))
    standby = "; a standby answers too" if statement.on_standby else ""
    return (
        f"### {statement.name}\n\n"
        f"For {roles}{standby}: `{statement.name}({parameters}){returns}`\n\n"
        f"```text\n{said}```\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
