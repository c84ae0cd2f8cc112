"""One public name, one class: nobody has to ask which of two is meant."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.helpers.paths import ROOT

FOLDERS = ("agents", "benchmarks", "cli", "taskq")


def test_no_two_public_classes_share_a_name() -> None:
    """In the product and its benchmarks."""
    places: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
