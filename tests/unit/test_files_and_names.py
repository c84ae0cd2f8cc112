"""Files that one person can hold in the head, and names that mean one thing each."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.helpers.paths import ROOT

PRODUCT = ("agents", "benchmarks", "cli", "taskq")
FOLDERS = (*PRODUCT, "examples", "sql", "tests")
KINDS = {".py", ".sql", ".lua"}
MOST_LINES = 400
# One class with the verbs of a campaign: three quarters are signatures and the manual of each verb.
ALLOWED = {Path("taskq/campaign/campaign.py"): 525}


def test_no_file_is_too_long() -> None:
    """What passes the limit is usually two things."""
    lines = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in KINDS and path.is_file()
    }
    assert len(lines) > len(FOLDERS)
    assert {
        path: number for path, number in lines.items() if number > ALLOWED.get(path, MOST_LINES)
    } == {}


def test_no_two_public_classes_share_a_name() -> None:
    """In the product and its benchmarks."""
    places: dict[str, list[str]] = defaultdict(list)
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
