"""Parts of screens: a table of rows that are known by name, and a text that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.coordinate import Coordinate
from textual.widgets import DataTable, Static

from taskq_cli.display import render
from taskq_cli.top.panels import Row

#: Of a column that gives way: what is shorter is no sentence.
LEAST_WIDTH: Final = 16


class Told(Static):
    """A text of a few lines. To lay out a screen takes longer than anything else that it does."""

    _text = ""

    def tell(self, text: str, *, folded: bool = False, fixed: bool = True) -> None:
        """Show a text. fixed: however long it is, it has as much room; less only if empty."""
        if text != self._text:
            layout = not (fixed and text and self._text)
            self._text = text
            shown = render.paragraph("", text) if folded else render.line(text)
            self.update(shown, layout=layout)


class Rows(DataTable[render.Line]):
    """A table; Enter opens a row."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", zebra_stripes=False)
        self._shown: list[Row] = []
        self._titles: Sequence[str] = ()
        self._numbers: list[bool] = []
        self._fitted: list[int] = []

    @property
    def chosen(self) -> Row | None:
        """The row that the cursor is on."""
        place = self.cursor_row
        return self._shown[place] if 0 <= place < len(self._shown) else None

    def fill(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        """Show these rows: change only what differs, and keep the cursor on its row."""
        names = [row.name for row in rows]
        widths = [_widths(found) for found in (rows, self._shown)]
        same = names == [row.name for row in self._shown] and widths[0] == widths[1]
        if same and titles == self._titles:
            for line, (row, old) in enumerate(zip(rows, self._shown, strict=True)):
                for place, (text, before) in enumerate(zip(row.cells, old.cells, strict=True)):
                    if text != before:
                        self.update_cell_at(Coordinate(line, place), self._cell(place, text))
        else:
            self._renew(titles, rows)
        self._shown, self._titles = list(rows), titles

    def _renew(self, titles: Sequence[str], rows: Sequence[Row]) -> None:
        chosen, before = self.chosen, self.cursor_row
        self.clear(columns=True)
        columns = zip(*(row.cells for row in rows), strict=True)
        self._numbers = [all(map(render.is_number, column)) for column in columns]
        wished = [
            max(map(render.cells, column))
            for column in zip(titles, *(row.cells for row in rows), strict=True)
        ]
        self._fitted = self._fitting(wished)
        for place, title in enumerate(titles if rows else ()):
            width = None if self._fitted[place] == wished[place] else self._fitted[place]
            self.add_column(self._cell(place, title.upper()), width=width)
        for row in rows:
            self.add_row(*(self._cell(place, text) for place, text in enumerate(row.cells)))
        names = [row.name for row in rows]
        if chosen is not None and chosen.name in names:
            before = names.index(chosen.name)
        self.move_cursor(row=min(before, len(names) - 1), animate=False)

    def _fitting(self, widths: Sequence[int]) -> list[int]:
        """Return widths at which all columns are seen: texts give way, the widest first."""
        fitting = list(widths)
        for place in sorted(range(len(widths)), key=lambda place: -widths[place]):
            excess = sum(fitting) + 2 * self.cell_padding * len(fitting) - self.app.size.width
            if excess > 0 and not self._numbers[place]:
                least = LEAST_WIDTH if place else render.FIRST_WIDTH
                fitting[place] = max(fitting[place] - excess, min(fitting[place], least))
        return fitting

    def on_resize(self) -> None:
        """Fit the columns again."""
        if self._shown:
            self._renew(self._titles, self._shown)

    def _cell(self, place: int, text: str) -> render.Line:
        if not place and self._fitted:
            text = render.shortened(text, self._fitted[place])
        return render.line(text, right=self._numbers[place])


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(*(row.cells for row in rows), strict=True)]
