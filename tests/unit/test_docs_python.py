"""Docstrings of what `import taskq` offers have sections, of which the reference page is made."""

from __future__ import annotations

import builtins
import concurrent.futures
import inspect
import re
from collections.abc import Iterator

import pytest

import taskq
from taskq.model import errors

SECTIONS = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)


def _documented() -> Iterator[tuple[str, object]]:
    for name in taskq.__all__:
        value = getattr(taskq, name)
        yield name, value
        if inspect.isclass(value):
            for inner, member in vars(value).items():
                if not inner.startswith("_") and (callable(member) or isinstance(member, property)):
                    yield f"{name}.{inner}", member


DOCUMENTED = dict(_documented())


def _sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the names in each section, with their descriptions."""
    _, *parts = SECTIONS.split(text)
    return {
        title: re.findall(r"^    (\w+): (.*)", body, re.MULTILINE)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.parametrize("name", DOCUMENTED)
def test_arguments_and_errors_stand_in_sections(name: str) -> None:
    """Prose such as `limit: most groups.` or `Raise X` is read by people alone."""
    value = DOCUMENTED[name]
    text = inspect.getdoc(value) or ""
    assert text
    prose = SECTIONS.split(text)[0]
    assert not re.search(r"^[a-z_]+(, [a-z_]+)*: |[Rr]aises? `", prose, re.MULTILINE), prose
    sections = _sections(text)
    for _, said in sections.get("Args", []):
        assert re.match(r"[A-Z\"`0-9]", said), said
    if sections.get("Args"):
        known = set(inspect.signature(value).parameters)  # type: ignore[arg-type]
        assert {argument for argument, _ in sections["Args"]} <= known
    for error, _ in sections.get("Raises", []):
        assert any(hasattr(place, error) for place in (errors, builtins, concurrent.futures)), error
