"""Conversion of text to numbers, for cells of tables and values of sweeps."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(
    r"""
    -?
    (?: (?P<whole> 0 | [1-9][0-9]{0,14} )
      | (?: 0 | [1-9][0-9]{0,14} ) \.[0-9]{1,20} (?: [eE][+-]?[0-9]{1,2} )?
      | [1-9][0-9]{0,14} [eE]-[0-9]{1,2}
    )
    """,
    re.VERBOSE,
)


def number_or_text(text: str) -> int | float | str:
    """Return a text as the number that it plainly is, or else the text; ignore white space around.

    Numbers: 8, -3, 0.25, 1.5e6, 1e-4. Text, since a catalogue or a person may have meant a name:
    leading zeros (007), a plus sign, more than 15 digits before the point, nan, inf, and exponents
    without point or minus sign, because 1E10 is an entry of the Protein Data Bank.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return text
    return float(text) if found["whole"] is None else int(text)
