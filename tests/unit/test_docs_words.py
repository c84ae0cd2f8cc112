"""Pages say things in the words that docs/style.md asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.test_docs_paths import ANY_BLOCK, PAGES, ROOT, of_page

STYLE = (ROOT / "docs/style.md").read_text(encoding="utf-8")
WORDS = [
    word
    for row in re.findall(r"^\| ([a-z ,]+) \|", STYLE.partition("## Words")[2], re.MULTILINE)
    for word in row.split(", ")
    if word != "not"
]
AVOIDED = re.compile(rf"\b({'|'.join(map(re.escape, WORDS))})\b", re.IGNORECASE)
CODE = re.compile(r"`[^`\n]*`|\]\([^)]*\)")


def test_style_names_words_to_avoid() -> None:
    """Otherwise the test below could not fail."""
    assert {"whoever", "beside", "is told"} < set(WORDS)


@pytest.mark.parametrize("page", [one for one in PAGES if one.name != "style.md"], ids=of_page)
def test_pages_use_plain_words(page: Path) -> None:
    """Outside of code and links."""
    text = CODE.sub("", ANY_BLOCK.sub("", page.read_text(encoding="utf-8")))
    assert [found[0] for found in AVOIDED.finditer(text)] == []
