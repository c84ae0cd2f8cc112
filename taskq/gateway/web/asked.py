"""What a viewer asks for, and which part of a long table that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq.gateway.web.access import Viewer
from taskq.model.seed import check_path

#: Rows of a long table that a page shows, and pages at most.
PAGE_ROWS: Final = 100
MOST_PAGES: Final = 500
_LONG: Final = 4


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """Return a parameter of a request, a short whole number; None if it is something else."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONG else None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a viewer asks for. query: the parameters of the request. acts: whether they may act."""

    viewer: Viewer
    query: Mapping[str, str]
    signed_in: bool
    acts: bool = False

    @property
    def path(self) -> str:
        """The campaign that it is about, by default the first that the viewer may see."""
        path = check_path(self.query.get("path") or self.viewer.paths[0])
        self.viewer.check(path)
        return path

    @property
    def part(self) -> int:
        """Which part of a long table it asks for, from 1."""
        return whole_number(self.query, "part") or 1

    def common(self, page: str) -> dict[str, Any]:
        """Return what all pages show."""
        return {"page": page, "path": self.path, "signed_in": self.signed_in, "acts": self.acts}


@dataclass(frozen=True, slots=True)
class Turn:
    """Which rows of a long table a page shows. number: of the page, from 1; whole: of all rows.

    rows: of a page.
    """

    number: int
    whole: int
    rows: int = PAGE_ROWS

    @classmethod
    def of(cls, asked: Asked, whole: int, rows: int = PAGE_ROWS) -> Turn:
        """Return the page that is asked for, or the last one. rows: of a page."""
        pages = min(MOST_PAGES, -(-whole // rows))
        return cls(max(1, min(asked.part, pages)), whole, rows)

    @property
    def first(self) -> int:
        """The first row, from 0."""
        return (self.number - 1) * self.rows

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, min(MOST_PAGES, -(-self.whole // self.rows)))
