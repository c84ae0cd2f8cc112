"""An act of a viewer: what it concerns, its command, and how it is done."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field


@dataclass(frozen=True, slots=True)
class Act:
    """An act that can be done now.

    title: a question. path: of the campaign. words: of its command. tasks: how many it concerns, or
    how many of another thing.
    about: the identity of what it concerns, so that another campaign of the same name is not taken
    for it. run: does it; returns what was done, in words. refused: why no page does it; empty if
    one does.
    """

    title: str
    path: str
    words: tuple[str, ...]
    tasks: int
    about: str
    run: Callable[[], str]
    _: KW_ONLY
    back: str
    notes: Sequence[str] = ()
    refused: str = ""
    thing: str = "task"
    button: str = field(default="Do it")

    @property
    def command(self) -> str:
        """The command that does the same."""
        return shlex.join(self.words)
