from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.handlers import check_handler
from taskq_agent.handlers.definition import fill
from taskq_agent.handlers.live import Tail
from taskq_agent.handlers.results import BadResult, encoded
from taskq_agent.text import clean

NAMES = st.text(st.characters(exclude_characters="{}", codec="utf-8"), min_size=1).filter(
    lambda name: not name.startswith(("params.", "task.")) and name != "scratch"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ({}, "kind is None"),
        ({"kind": "shell"}, "command, python, process"),
        ({"kind": ["command"]}, "kind"),
        ({"kind": "command"}, "argv"),
        ({"kind": "command", "argv": "echo a"}, "list"),
        ({"kind": "command", "argv": []}, "list"),
        ({"kind": "command", "argv": ["echo", 1]}, "not a string"),
        ({"kind": "command", "argv": ["echo", "a\0"]}, "NUL"),
        ({"kind": "command", "argv": [""]}, "empty"),
        ({"kind": "command", "argv": ["a"], "shell": True}, "no 'shell'"),
        ({"kind": "command", "argv": ["{program}"]}, "the same for all tasks"),
        ({"kind": "command", "argv": ["a", "{"]}, "character 1"),
        ({"kind": "command", "argv": ["a", "x{}"]}, "character 2"),
        ({"kind": "command", "argv": ["a", "{x}}"]}, "character 4"),
        ({"kind": "command", "argv": ["a", "{params.absent}"]}, "'absent'"),
        ({"kind": "command", "argv": ["a", "{params.null}"]}, "'null'"),
        ({"kind": "command", "argv": ["a", "{task.lease}"]}, "{task.key}"),
        ({"kind": "process", "argv": ["a", "{x}"]}, "the same for all tasks"),
        ({"kind": "process", "argv": ["a", "{scratch}"]}, "the same for all tasks"),
        ({"kind": "python"}, "target is None"),
        ({"kind": "python", "target": "module"}, "module:function"),
        ({"kind": "python", "target": "a b:c"}, "module:function"),
        ({"kind": "python", "target": "a:b", "prepare": "a"}, "prepare is 'a'"),
    ],
)
def test_handler_that_can_run_nothing_is_refused_with_the_reason(
    handler: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        check_handler(handler, {"null": None})


@pytest.mark.parametrize(
    "handler",
    [
        {"kind": "command", "argv": ["a", "{x}", "{{}}", "{task.key}", "{scratch}", "{params.p}"]},
        {"kind": "command", "argv": ["{params.program}"]},
        {"kind": "process", "argv": ["a", "--n={params.p}"]},
        {"kind": "python", "target": "a.b:C.d", "prepare": "a:b"},
        {"kind": "python", "target": "a:b", "prepare": None},
    ],
)
def test_sound_handler_passes(handler: dict[str, Any]) -> None:
    check_handler(handler, {"p": 1, "program": "/bin/true"})


@given(NAMES, st.text())
def test_placeholder_becomes_exactly_its_value(name: str, value: str) -> None:
    """Nothing in a value is looked at again, and the text around it stays."""
    assert fill([f"<{{{name}}}>"], params={}, payload={name: value}) == [f"<{value}>"]


@given(st.text())
def test_doubled_braces_stand_for_any_text(text: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert fill([escaped], params={}) == [text]


@given(st.lists(st.binary()), st.integers(1, 40))
def test_tail_is_the_end_of_what_was_written(chunks: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
        assert len(tail._kept) <= 3 * limit  # noqa: SLF001 - memory is the point
    assert tail.bytes() == b"".join(chunks)[-limit:]
    text = tail.text()
    assert text is None or 0 < len(text.encode()) <= limit


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_cleaned_text_can_be_stored_and_shown(text: str) -> None:
    """PostgreSQL refuses NUL and lone surrogates; a terminal obeys control characters."""
    cleaned = clean(text)
    cleaned.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", cleaned)
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r20%\r\ndone\r\r\n", "10%\n20%\ndone\n"),
        ("\x1b(Bplain\x1b", "plain"),
        ("tab\there", "tab\there"),
    ],
)
def test_terminal_escapes_go(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value:
            yield from strings_in(inner)
        if isinstance(value, dict):
            yield from strings_in(list(value.values()))


@pytest.mark.thorough
@given(st.dictionaries(st.text(), JSON))
def test_accepted_result_survives_and_can_be_stored(result: dict[str, Any]) -> None:
    """What is accepted comes back equal; what is refused has what jsonb cannot hold."""
    try:
        text = encoded(result)
    except BadResult:
        plain = json.dumps(result)
        assert re.search(r"NaN|Infinity|\\u0000|\\ud[89a-f]", plain)
    else:
        assert json.loads(text) == result
        text.encode()
        assert not [string for string in strings_in(result) if "\0" in string]


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "a\\u0000"])
def test_backslash_before_a_number_is_no_nul(text: str) -> None:
    assert json.loads(encoded({"x": text})) == {"x": text}
    with pytest.raises(BadResult, match="NUL"):
        encoded({"x": text + "\0"})
