"""The table of seeded bugs follows the code, and the other tests know nothing of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS
from tests.unit.test_docs_words import AVOIDED

SHIPPED = ("agents/", "cli/", "sql/", "taskq/")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_seeded_bug_has_its_place(mutant: Mutant) -> None:
    """Its text occurs exactly once in shipped code, and its tests are there."""
    assert mutant.seeded(ROOT) != (ROOT / mutant.file).read_text()
    assert mutant.file.startswith(SHIPPED)
    assert mutant.breaks.endswith(".")
    assert mutant.first
    for test in mutant.first:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8"), test


def test_descriptions_are_in_plain_words() -> None:
    """Those that docs/style.md asks for, as on pages and in messages."""
    found = {
        mutant.name: words
        for mutant in MUTANTS
        if (words := AVOIDED.findall(f"{mutant.name.replace('-', ' ')} {mutant.breaks}"))
    }
    assert found == {}


def test_there_are_enough_of_them_and_each_once() -> None:
    """At least twenty, of unlike names, in each part that is shipped to run."""
    assert len(MUTANTS) >= 20
    assert set(Counter(mutant.name for mutant in MUTANTS).values()) == {1}
    assert {mutant.file.split("/")[0] for mutant in MUTANTS} == {"agents", "cli", "sql", "taskq"}


def test_ordinary_tests_know_nothing_of_them() -> None:
    """No test was written with a seeded bug in view, nor can it tell that there is one."""
    here = Path(__file__).parent
    knowing = [
        path
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if here not in path.parents and "mutant" in path.read_text().lower()
    ]
    assert knowing == []
