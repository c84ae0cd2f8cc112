"""docs/threat-model.md names what stops each threat: tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_threat_model_names_tests_that_exist() -> None:
    """A test that is renamed or removed is so there as well."""
    named = set(re.findall(r"`(test_\w+)`", (TESTS.parent / "docs/threat-model.md").read_text()))
    assert len(named) > 30
    defined = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    assert named - defined == set()
