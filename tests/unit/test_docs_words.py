"""Pages, messages, docstrings and comments say things in the words that docs/style.md asks for."""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
    assert {"whoever", "beside", "told", "is said"} < set(WORDS)


@pytest.mark.parametrize("page", [path for path in PAGES if path.name != "style.md"], ids=of_page)
def test_pages_use_plain_words(page: Path) -> None:
    """Outside of code and links."""
    text = CODE.sub("", ANY_BLOCK.sub("", page.read_text(encoding="utf-8")))
    assert [found[0] for found in AVOIDED.finditer(text)] == []


def messages(path: Path) -> str:
    """Return the texts of a file that a user may read: of Python all strings, of others all."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    strings = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return "\n".join(string for string in strings if isinstance(string, str))


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["agents", "benchmarks", "cli", "sql", "taskq"])
def test_messages_are_in_plain_words(folder: str) -> None:
    """Errors, warnings, log lines, help, and the texts of pages."""
    kinds = ("py", "sql", "html", "js")
    files = [path for kind in kinds for path in (ROOT / folder).rglob(f"*.{kind}")]
    assert len(files) > 20
    found = {
        str(path.relative_to(ROOT)): words
        for path in files
        if (words := AVOIDED.findall(messages(path)))
    }
    assert found == {}


def prose(path: Path) -> str:
    """Return the docstrings and comments of a file of Python or SQL."""
    text = path.read_text(encoding="utf-8")
    if not AVOIDED.search(text):  # which is most of them, and much faster than to take them apart
        return ""
    if path.suffix == ".sql":
        return "\n".join(re.findall(r"--.*| is\s+'(?:[^']|'')*'", text))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    found = [ast.get_docstring(node) or "" for node in documented]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(
        [*found, *(token.string for token in tokens if token.type == tokenize.COMMENT)]
    )


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["agents", "benchmarks", "cli", "sql", "taskq", "tests"])
def test_code_is_explained_in_plain_words(folder: str) -> None:
    """What is quoted is code."""
    files = [path for suffix in ("py", "sql") for path in (ROOT / folder).rglob(f"*.{suffix}")]
    assert len(files) > 20
    found = {
        str(path.relative_to(ROOT)): words
        for path in files
        if (words := AVOIDED.findall(CODE.sub("", prose(path))))
    }
    assert found == {}


def names(path: Path) -> set[str]:
    """Return the names that a file defines or uses, each as words."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return {token.string.replace("_", " ") for token in tokens if token.type == tokenize.NAME}


def test_names_in_tests_are_in_plain_words() -> None:
    """The name of a test is its specification; helpers and values are read with it."""
    files = [*(ROOT / "tests").rglob("*.py")]
    assert len(files) > 100
    found = {
        str(path.relative_to(ROOT)): words
        for path in files
        if AVOIDED.search(path.read_text(encoding="utf-8").replace("_", " "))
        if (words := [name for name in names(path) if AVOIDED.search(name)])
    }
    assert found == {}


def test_names_of_tests_begin_with_what_they_are_about() -> None:
    """`test_malformed_digest_is_refused`, not `test_what_is_no_digest_is_refused`; no article."""
    first = "a|an|the|what|who|whoever|whose"
    defined = re.compile(rf"^ *(?:async )?def (test_(?:{first})_\w+)", re.MULTILINE)
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    assert [name for text in texts for name in defined.findall(text)] == []
