"""Text from outside, cleaned for storage and display."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences (ECMA-48): colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # strings: window titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_ENDS = re.compile(r"\r+\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def clean(text: str) -> str:
    """Return text without characters that a database or a terminal cannot handle.

    NUL, other control characters, terminal escapes and lone surrogates are removed. Carriage
    returns, with which programs redraw a line, become line ends.
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", _LINE_ENDS.sub("\n", text)))


def is_unicode(text: str) -> bool:
    """Return whether text is valid Unicode: lone surrogates stand for bytes that were not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
