"""What a new user types into the search of the manual is found, together, in one section."""

from __future__ import annotations

import re

import pytest

from tests.helpers.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SECTIONS = [
    (page.name, section.lower())
    for page in PAGES
    for section in re.split(r"^#", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
]

#: The words, and a page where they stand together.
ASKED = [
    ("self-signed certificate", "questions.md"),
    ("certificate verify failed", "questions.md"),
    ("encoding umlaut", "questions.md"),
    ("install wheel without clone", "questions.md"),
    ("gpu slots", "handlers.md"),
    ("how large batch gpu", "questions.md"),
    ("agents do nothing", "questions.md"),
    ("read-only home scratch", "questions.md"),
    ("resume crash", "questions.md"),
    ("duplicate key", "questions.md"),
    ("retry failed", "questions.md"),
    ("cancel all waiting", "questions.md"),
    ("out of memory", "questions.md"),
    ("time limit", "handlers.md"),
    ("best hits csv", "questions.md"),
    ("docker container", "questions.md"),
    ("apptainer singularity", "handlers.md"),
    ("workflow", "questions.md"),
    ("proxy firewall", "questions.md"),
    ("disk full", "questions.md"),
    ("backup restore", "production.md"),
    ("upgrade database", "questions.md"),
    ("windows macos", "stability.md"),
    ("priority", "cli.md"),
    ("s3 bucket", "cli.md"),
    ("slurm array", "fleet.md"),
    ("token expired", "errors.md"),
]


@pytest.mark.parametrize(("words", "page"), ASKED, ids=[words for words, _ in ASKED])
def test_words_of_new_users_lead_to_a_section(words: str, page: str) -> None:
    found = {name for name, section in SECTIONS if all(word in section for word in words.split())}
    assert page in found
