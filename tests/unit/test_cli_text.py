"""Text of the command line: numbers, foreign text, counts and widths."""

from __future__ import annotations

import io
import json
import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from taskq.model.views import Status
from taskq.model.words import beginning, command, duration, rate
from taskq.results.ranking import dotted
from taskq_cli.display import render
from taskq_cli.display.progress import RateMeter
from taskq_cli.display.text import one_line, printable, safe_json

NOTHING = Status(1, "/c", "open", None, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class Screen(io.StringIO):
    """A terminal that is as wide as COLUMNS says."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def drawn(what: render.Picture) -> list[str]:
    """Return the lines that a terminal shows, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", render.as_text(what, Screen())).splitlines()


@given(st.text())
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    """Control and format characters come out as escapes; line ends and tabs stay."""
    for character in printable(text):
        assert character.isprintable() or character in "\n\t" or character.isspace()
        assert character not in "\x1b\x9b\r\x07\x08\u202e\u2028\x85"


@given(st.text())
def test_printable_text_stays_as_it_is(text: str) -> None:
    """What is made printable once is not changed any more."""
    assert printable(printable(text)) == printable(text)


@given(st.text())
def test_safe_json_means_the_same(text: str) -> None:
    """Escapes replace characters within strings only; nothing is lost."""
    written = safe_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(written) == {"text": text}
    assert not set(written) & set("\x1b\x9b\x7f\u202e\u2028\u2066\ufeff")


def test_one_line_is_one_line() -> None:
    """Lines are joined; spaces at the beginning stay, since they may be the margin of a tree."""
    assert one_line("a \n\n  b\tc") == "a b c"
    assert one_line("│   └── x") == "│   └── x"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (192, "3 min 12 s"),
        (3_600, "1 h"),
        (18_600, "5 h 10 min"),
        (183_600, "2 d 3 h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    """Two units at most, as precise as one needs."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(0, "0/s"), (1_234, "1,234/s"), (8.14, "8.1/s"), (0.2, "12/min"), (0.001, "3.6/h")],
)
def test_rates_have_a_unit_that_makes_them_readable(per_s: float, text: str) -> None:
    """A docking campaign's rate is shown per minute, not as a small fraction."""
    assert rate(per_s) == text


def test_hundred_percent_is_shown_only_when_all_tasks_are_final() -> None:
    """All but one of many is not all."""
    assert NOTHING.final_share == ""
    assert replace(NOTHING, done=999_999, waiting=1).final_share == "99.9 %"
    assert replace(NOTHING, done=7, failed=2, cancelled=1).final_share == "100.0 %"


def test_rate_is_that_of_the_window() -> None:
    """What happened before the window does not count, what went back begins anew."""
    pace = RateMeter(window_s=10)
    assert pace.per_s() is None
    pace.add(0, 0)
    assert pace.per_s() is None
    for second in range(1, 21):
        pace.add(second, 100)
    assert pace.per_s() == 0
    pace.add(22, 150)
    assert pace.per_s() == pytest.approx(5)
    pace.add(23, 0)
    assert pace.per_s() is None


def test_dotted_names_reach_into_records() -> None:
    """Names that contain dots themselves are found too."""
    record = {"result": {"pose": {"energy": -7.1}, "a.b": 2}, "key": "x"}
    assert dotted(record, "result.pose.energy") == -7.1
    assert dotted(record, "result.a.b") == 2
    assert dotted(record, "key") == "x"
    assert dotted(record, "key.x") is None
    assert dotted(record, "result.nope.energy") is None


@pytest.mark.parametrize("columns", [30, 60, 100])
def test_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Columns that give way are cut, then the last ones are left out; the first always stays."""
    monkeypatch.setenv("COLUMNS", str(columns))
    fitted = render.fit(
        ["key", "payload", "host"],
        [["ligand-1", "x" * 80, "node1"], ["ligand-2", "y", "漢字漢字"]],
        Screen(),
        gives_way=["payload"],
    )
    lines = drawn(render.table(fitted))
    assert max(map(cell_len, lines)) <= columns
    assert lines[1].startswith("ligand-1")
    assert [*fitted.titles, *fitted.dropped] == ["key", "payload", "host"]


def test_long_path_leaves_room_for_its_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is shortened in its middle; if nothing else needs the room, it stays whole."""
    monkeypatch.setenv("COLUMNS", "60")
    path = f"/screens/{'x' * 60}/last"
    fitted = render.fit(["campaign", "class", "tasks"], [[path, "exit-3", "7"]], Screen())
    assert fitted.dropped == []
    assert drawn(render.table(fitted))[1].split() == [fitted.rows[0][0], "exit-3", "7"]
    first = fitted.rows[0][0]
    assert first.startswith("/screens/x")
    assert first.endswith("x/last")
    monkeypatch.setenv("COLUMNS", "100")
    fitted = render.fit(["campaign", "class", "tasks"], [[path, "exit-3", "7"]], Screen())
    assert fitted.rows[0][0] == path


def test_columns_that_matter_less_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """And before them those that have one text in all rows, which is shown once."""
    monkeypatch.setenv("COLUMNS", "30")
    rows = [["n1", "s" * 20, "4", "2.50", "2"], ["n2", "s" * 20, "4", "1.00", "3"]]
    titles = ["host", "site", "agents", "times", "slots"]
    fitted = render.fit(titles, rows, Screen(), yields=[0, 2, 1, 0, 0])
    assert fitted.alike == {"site": "s" * 20}
    assert (fitted.titles, fitted.dropped) == (["host", "agents", "times", "slots"], [])
    rows[1][1] = "t" * 20
    fitted = render.fit(titles, rows, Screen(), yields=[0, 2, 1, 0, 0])
    assert (fitted.alike, fitted.dropped) == ({"agents": "4"}, ["site"])
    fitted = render.fit(
        ["at", "agent", "detail"],
        [["1", "a" * 20, "x"], ["2", "", "y" * 20]],
        Screen(),
        sparse=["agent"],
    )
    assert fitted.alike == {"agent": "a" * 20}
    monkeypatch.setenv("COLUMNS", "15")
    fitted = render.fit(["a", "b", "c"], [["x" * 5] * 3], Screen(), yields=[0, 1, 0])
    assert (fitted.titles, fitted.dropped) == (["a", "c"], ["b"])


def test_texts_are_folded_at_spaces_and_units_stay_with_their_numbers() -> None:
    """Neither words nor dates are broken, unless they are longer than the line."""
    text = "n17 is banned until 2026-11-24T08:00:00Z (22 % to 100 %)"
    lines = render.folded(text, 24)
    assert lines == ["n17 is banned until", "2026-11-24T08:00:00Z", "(22 % to 100 %)"]
    assert render.folded("a shares 22 % of it", 12) == ["a shares", "22 % of it"]
    assert render.folded("x  y", 80) == ["x  y"]
    assert render.folded("see `taskq ls /a` now", 15) == ["see", "`taskq ls /a`", "now"]
    assert drawn(render.Paragraph("1. ", "y" * 4)) == ["1. yyyy"]


def test_words_wider_than_the_terminal_go_on_behind_the_margin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command with a long path does not go on in the first column, and loses no character."""
    monkeypatch.setenv("COLUMNS", "40")
    path = f"/{'screen/' * 12}all"
    lines = drawn(render.Paragraph("   $ ", f"taskq campaign resume {path} --yes"))
    assert [line[:5] for line in lines] == ["   $ ", *["     "] * (len(lines) - 1)]
    assert max(map(len, lines)) <= 40
    assert path in "".join(line[5:].rstrip() for line in lines)


def test_room_of_columns_that_are_left_out_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gave way in vain is as wide as there is room for in the end."""
    monkeypatch.setenv("COLUMNS", "60")
    row = ["ligand-1", "x" * 60, "y" * 40]
    fitted = render.fit(["key", "payload", "host"], [row], Screen(), gives_way=["payload"])
    assert (fitted.widths, fitted.dropped) == ([8, 50], ["host"])


def test_table_in_a_pipe_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no terminal gets everything, on one line a row, without colours."""
    monkeypatch.delenv("COLUMNS", raising=False)
    fitted = render.fit(["key"], [["k" * 300]], io.StringIO(), gives_way=["key"])
    assert render.as_text(render.table(fitted), io.StringIO()).splitlines() == ["KEY", "k" * 300]


@pytest.mark.thorough
def test_table_in_a_pipe_fits_the_width_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone who sets COLUMNS gets it as on a terminal of that width."""
    monkeypatch.setenv("COLUMNS", "40")
    row = ["ligand-1", "x" * 60]
    fitted = render.fit(["key", "error"], [row], io.StringIO(), gives_way=["error"])
    lines = render.as_text(render.table(fitted), io.StringIO()).splitlines()
    assert lines[1] == f"ligand-1  {'x' * 29}…"
    monkeypatch.setenv("COLUMNS", "wide")
    assert render.fit(["key"], [["k" * 300]], io.StringIO()).widths == [300]


@pytest.mark.parametrize("columns", [38, 43, 50, 57, 62])
def test_command_is_in_a_table_as_a_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """What a narrow terminal would leave of it may be another command."""
    monkeypatch.setenv("COLUMNS", str(columns))
    said = "it paused: `taskq campaign resume /a/b` when mended"
    fitted = render.fit(["key", "reason"], [["x", said]], Screen(), gives_way=["reason"])
    shown = drawn(render.table(fitted))[1].removeprefix("x").strip()
    whole = columns > said.rindex("`") + len("key  …")
    assert shown.startswith("it paused: `taskq campaign resume /a/b`" if whole else "it paused:…")
    assert ("taskq" in shown) == whole


def test_command_is_in_a_shortened_text_as_a_whole_or_not_at_all() -> None:
    """Quotation marks that are half of it are no command's, and cost nothing."""
    said = "see `taskq campaign resume /a/b` and more"
    assert {beginning(said, chars) for chars in range(5, 32)} == {"see..."}
    assert beginning(said, 32) == "see `taskq campaign resume /a/b`..."
    assert beginning(said, len(said)) == said
    assert beginning("`sh': " + "x" * 9, 8) == "`sh': xx..."


@pytest.mark.parametrize("columns", [20, 40, 60, 120])
def test_state_of_a_campaign_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Bar and counts keep to the width; a single failure among millions can be seen."""
    monkeypatch.setenv("COLUMNS", str(columns))
    counts = dict.fromkeys(("done", "cancelled", "working", "delayed"), 0)
    picture = render.campaign("/c", {**counts, "failed": 1, "waiting": 5_000_000}, [])
    lines = drawn(picture)
    assert len(lines[1]) == min(columns, render.BAR_WIDTH)
    assert lines[1].startswith("▚·")
    assert max(map(len, lines)) <= columns


def test_proposed_command_names_what_it_means() -> None:
    """A shell reads the same words, also where one would not be seen; none is an option."""
    names = ["a\nb", "t\tx", "\x1b[31m", "h\u202ei", "q'\n\\0", "\x011", "$(id)", "-rf", "x'y", ""]
    printed = command("host", "ban", names=names)
    assert one_line(printed) == printed
    words = printed.replace("taskq", "printf '%s\\0'", 1)
    read = subprocess.run(["bash", "-c", words], capture_output=True, check=True).stdout
    assert read.decode().split("\0") == ["host", "ban", "--", *names, ""]
