"""Generator of the part of docs/sql.md that lists the functions of each role.

`python -m tests.helpers.sql_page` updates it from the grants in sql/roles and the heads of the
files in sql/functions; the part above its mark is written by hand.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from taskq.db.roles import ROLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/sql.md"
MARK = "<!-- What follows is written by `make schema`. -->\n"


def granted() -> dict[str, list[str]]:
    """Return the functions that a role may execute, by name, each with its roles."""
    found = defaultdict(list)
    for role, parts in ROLES.items():
        for part in parts:
            text = (ROOT / f"sql/roles/{part}.sql").read_text(encoding="utf-8")
            for grant in re.findall(r"grant execute on function(.*?)to \{login\}", text, re.DOTALL):
                for name in re.findall(r"taskq\.(\w+)", grant):
                    found[name].append(role)
    return dict(sorted(found.items()))


def functions() -> str:
    """Return the generated part of the page."""
    return "\n".join(_section(name, roles) for name, roles in granted().items())


def page() -> str:
    """Return the page as it should be."""
    return PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + functions()


def _section(name: str, roles: list[str]) -> str:
    source = (ROOT / f"sql/functions/{name}.sql").read_text(encoding="utf-8")
    head = re.match(r"(?:--.*\n)+", source)
    form = r"create or replace function taskq\.\w+\((.*?)\)\n(.*?)language"
    found = re.search(form, source, re.DOTALL)
    assert head is not None, name
    assert found is not None, name
    said = re.sub(r"^-- ?", "", head[0], flags=re.MULTILINE)
    parameters = ", ".join(
        line.strip().rstrip(",") for line in found[1].splitlines() if line.strip()
    )
    returns = f" {' '.join(found[2].split())}" if found[2].strip() else ""
    return (
        f"### {name}\n\nFor {', '.join(dict.fromkeys(roles))}: `{name}({parameters}){returns}`\n\n"
        f"```text\n{said}```\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
