"""Seeding from the command line: files, sweeps, bad lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from taskq import Campaign
from taskq.ingest.seeding import CHUNK
from tests.helpers.command_line import CommandLine

pytestmark = pytest.mark.both_transports

SDF = "eth\n\n\n  0  0  0  0\nM  END\n> <id>\nE1\n\n$$$$\n"


def payloads(campaign: Campaign) -> dict[str, object]:
    """Return the payloads of a campaign by key."""
    return {task.key: task.payload for task in campaign.tasks()}


def test_files_of_each_format_become_tasks(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """SMILES, CSV, TSV, JSON Lines and SDF, plain and gzip, several in one command."""
    (tmp_path / "a.smi.gz").write_bytes(gzip.compress(b"CCO ethanol\n"))
    (tmp_path / "b.csv").write_text("id,mass\nwater,18.0\n")
    (tmp_path / "c.tsv").write_text("id\tmass\nneon\t20\n")
    (tmp_path / "d.jsonl").write_text('{"id": "argon"}\n')
    (tmp_path / "e.sdf").write_text(SDF)
    taskq.out("seed", "/c", tmp_path / "a.smi.gz")
    assert taskq.json("seed", "/c", "--key-field", "id", *sorted(tmp_path.glob("[b-e].*"))) == {
        "path": "/c",
        "read": 4,
        "added": 4,
        "known": 0,
        "bad": 0,
        "conflicts": 0,
    }
    found = payloads(campaign)
    assert found.keys() == {"ethanol", "water", "neon", "argon", "E1"}
    assert found["water"] == {"id": "water", "mass": 18.0}
    assert found["ethanol"] == {"smiles": "CCO", "name": "ethanol"}


def test_options_of_files_reach_the_reader(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Format, key, priority, delimiter, types and header have options."""
    table = tmp_path / "table.txt"
    table.write_text("id;n;p\na;1;7\n")
    taskq.out(
        *["seed", "/c", table, "--format", "csv", "--delimiter", "semicolon", "--key-field", "id"],
        *["--priority-field", "p", "--types", "text"],
    )
    (task,) = campaign.tasks()
    assert (task.key, task.priority, task.payload["n"]) == ("a", 7, "1")
    molecules = tmp_path / "molecules.smi"
    molecules.write_text("C methane\nCC ethane\n")
    taskq.out("seed", "/c", molecules, "--header")
    assert set(payloads(campaign)) == {"a", "ethane"}


def test_sweep_is_combined_with_each_record(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Two ligands and three seeds are six tasks; a sweep alone needs no file."""
    file = tmp_path / "l.smi"
    file.write_text("C a\nCC b\n")
    assert taskq.json("seed", "/c", file, "--sweep", "seed=1:3")["added"] == 6
    assert payloads(campaign)["a;seed=2"] == {"smiles": "C", "name": "a", "seed": 2}
    sweep = ["--sweep", "t=280,300", "--sweep", "ph=6:7:0.5"]
    assert taskq.json("seed", "/c", *sweep)["added"] == 6


def test_standard_input_is_read(taskq: CommandLine, campaign: Campaign) -> None:
    """`-` is standard input, whose format an option must name."""
    taskq.out("seed", "/c", "-", "--format", "jsonl", input='{"n": 1}\n{"n": 2}\n')
    assert campaign.status().waiting == 2


def test_seeding_again_adds_nothing(taskq: CommandLine, campaign: Campaign) -> None:
    """The same command twice is the same as once, and says so."""
    words = ["seed", "/c", "--sweep", "n=1:7000"]
    assert "7,000 tasks added to /c;" in taskq.out(*words)
    assert "0 tasks added to /c, 7,000 known before" in taskq.out(*words)
    assert campaign.status().total == 7_000


def test_campaign_file_says_what_to_seed(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """The table [seed] is used by `--campaign-file`; a path given wins over the file's."""
    (tmp_path / "l.smi").write_text("C a\n")
    file = tmp_path / "campaign.toml"
    file.write_text(
        f'path = "{campaign.path}"\n[handler]\nkind = "command"\nargv = ["true"]\n'
        '[seed]\nfile = "l.smi"\nsweep = ["n=1:2"]\n'
    )
    assert taskq.json("seed", "--campaign-file", file)["added"] == 2
    assert taskq.refused("seed", "/other", "--campaign-file", file)[0] == 66
    assert taskq.refused("seed", "--campaign-file", file, "--key-field", "x")[0] == 2


def test_bad_line_stops_with_its_number_and_reason(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """The error names file and line; it counts what was added before, and the rest can follow."""
    file = tmp_path / "l.jsonl"
    lines = [json.dumps({"n": n}) for n in range(CHUNK + 1_000)]
    file.write_text("\n".join([*lines, "[1]", '{"n": -1}', ""]))
    code, error = taskq.refused("seed", "/c", file)
    assert code == 65
    assert f"{file}:{CHUNK + 1_001}: the line must be an object" in error
    assert f"tasks added before: {CHUNK:,}" in error
    assert campaign.status().total == CHUNK
    file.write_text("\n".join([*lines, '{"n": -1}', ""]))
    assert taskq.json("seed", "/c", file)["added"] == 1_001


def test_bad_lines_can_be_passed_over(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Each is reported, a flood of them is counted, and the others become tasks."""
    file = tmp_path / "l.jsonl"
    file.write_text('{"n": 1}\n' + "oops\n" * 150)
    result = taskq("seed", "/c", file, "--on-error", "skip", "--output", "json")
    assert json.loads(result.stdout)["bad"] == 150
    reports = result.stderr.splitlines()
    assert reports[0] == f"{file}:2: not JSON: Expecting value at character 1: oops"
    assert "Warning: /c has no handler" in reports.pop()
    assert len(reports) == 101
    assert (result.exit_code, campaign.status().total) == (0, 1)


def test_file_of_nothing_but_bad_lines_is_an_error(taskq: CommandLine, tmp_path: Path) -> None:
    """A file in the wrong format is reported, even when bad lines are passed over."""
    taskq.out("campaign", "create", "/c")
    file = tmp_path / "l.jsonl"
    file.write_text("C a\nCC b\n")
    result = taskq("seed", "/c", file, "--on-error", "skip")
    assert result.exit_code == 65
    assert "is it the right format? See --format" in result.stderr


BAD_FILES: dict[str, tuple[bytes, int, str]] = {
    "array.jsonl": (b"[1]\n", 65, ":1: the line must be an object"),
    "cut.jsonl": (b'{"a": 1}\n{"a":', 65, ":2: the file ends within this line"),
    "cut.csv": (b'a\n"b', 65, ":2: the file ends within a quoted value"),
    "cut.sdf": (SDF.encode() * 2 + b"eth\n\n\nM", 65, ":19: the file ends within the molecule"),
    "cut.jsonl.gz": (gzip.compress(b'{"a": 1}\n' * 999)[:60], 65, "cut off here"),
    "nul.jsonl": (rb'{"a": "\u0000"}', 65, "NUL"),
    "zero.smi": (b"C\0C\n", 65, "NUL"),
    "latin1.csv": (b"a\n\xe9\n", 65, ":2: byte 1 (0xe9) is not UTF-8"),
    "surrogate.jsonl": (rb'{"a": "\ud800"}', 65, "lone surrogate"),
    "large.jsonl": (b'{"a": "' + b"x" * 66_000 + b'"}', 65, "65536 at most"),
    "key.csv": (b"id\n" + b"k" * 300 + b"\n", 65, "1 to 255"),
    "unknown.xyz": (b"a\n", 2, "`taskq seed --format`"),
    "bad.jsonl": (b"{\n", 65, "correct it, or skip bad lines with --on-error skip"),
    "commas.tsv": (b"a,b\n1,2\n", 2, "`--format csv`"),
    "first.smi": (b"Z1\tCCO\n", 65, ":1: 'Z1' is not SMILES: 'Z1' at character 1"),
    "two.sdf": (SDF.replace("$$$$\n", "").encode() * 2, 65, "is a $$$$ missing?"),
    "open.smi": (b"CC |&1:1 Z1\n", 65, ":1: the extension of the SMILES"),
    "nokey.csv": (b"a,b\n1,2\n", 2, "its columns are: a, b; name one by --key-field"),
}


def test_bad_files_are_refused_in_a_line_and_add_nothing(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Each kind of damage has an error that names the file, the line and the reason."""
    for name, (content, code, reason) in BAD_FILES.items():
        file = tmp_path / name
        file.write_bytes(content)
        options = ["--key-field", "id"] if "key" in name else []
        exit_code, error = taskq.refused("seed", "/c", file, *options)
        assert (exit_code, str(file) in error, reason in error) == (code, True, True), error
    assert campaign.status().total == 0


WRONG_CALLS: list[tuple[list[str], int, str]] = [
    ([], 2, "nothing to seed"),
    (["{folder}/absent.smi"], 66, "absent.smi"),
    (["/tmp"], 2, "/tmp"),  # noqa: S108  # a folder that is there
    (["-"], 2, "(`taskq seed --format`)"),
    (["https://host/a.csv"], 2, "`curl URL | taskq seed CAMPAIGN - --format csv`"),
    (["-", "-", "--format", "csv"], 2, "only once"),
    (["--sweep", "n"], 2, "NAME=VALUES"),
    (["--sweep", "n=2:1"], 2, "upwards"),
    (["--sweep", "n=1:2", "--key-field", "n"], 2, "do not apply"),
    (["--sweep", "n=1:2", "--delimiter", "ab"], 2, "one character"),
    (["{folder}/x.smi", "--format", "xml"], 2, "'xml'"),
    (["--campaign-file", "{folder}/absent.toml"], 66, "absent.toml"),
]


def test_wrong_call_of_seed_is_refused_in_a_line(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Anything that cannot be seeded is reported before seeding begins."""
    (tmp_path / "x.smi").touch()
    for words, code, reason in WRONG_CALLS:
        named = [word.replace("{folder}", str(tmp_path)) for word in words]
        exit_code, error = taskq.refused("seed", "/c", *named, input="")
        assert (exit_code, reason in error) == (code, True), (words, error)
    assert campaign.status().total == 0


def test_one_absent_file_of_several_stops_before_the_first(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """All files are opened before the first task is added."""
    (tmp_path / "a.smi").write_text("C a\n")
    code, _ = taskq.refused("seed", "/c", tmp_path / "a.smi", tmp_path / "b.smi")
    assert (code, campaign.status().total) == (66, 0)


def test_cancelled_campaign_takes_no_tasks(taskq: CommandLine, campaign: Campaign) -> None:
    """Seeding what was cancelled is a conflict, and the error says what to do."""
    campaign.cancel()
    code, error = taskq.refused("seed", "/c", "--sweep", "n=1:2")
    assert (code, "resume" in error) == (3, True), error


def test_seed_writes_remarks_on_its_files_to_standard_error(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """Once for each kind, with file and line, also where the records meet a sweep."""
    table, molecules = tmp_path / "index.csv", tmp_path / "last.sdf"
    table.write_text(",id,n\n0,1.10,1\n1,1.1,2\n")
    molecules.write_text(SDF.removesuffix("$$$$\n"))
    words = ["seed", "/c", table, molecules, "--sweep", "x=1:2"]
    error = taskq(*words).stderr
    assert f"Note: {table}:2: a column has no name in the header: it is 'column1'" in error
    assert f"{table}:2: the column 'id' stays text: as a number, '1.10' would be 1.1;" in error
    assert f"{molecules}:1: the last molecule, from here on, has no $$$$" in error
    assert error.count("column1") == 1
    assert campaign.status().total == 6


@pytest.mark.parametrize(
    "words",
    [("seed", "/c", "--sweep", "x=1.10"), ("campaign", "change", "/c", "--param", "x=1.10")],
    ids=["sweep", "param"],
)
def test_number_on_the_command_line_that_would_be_altered_is_refused(
    taskq: CommandLine, campaign: Campaign, words: tuple[str, ...]
) -> None:
    """It may be a name; the error says how to write either."""
    code, error = taskq.refused(*words)
    assert (code, "1.10 would be stored as 1.1" in error) == (2, True), error
    *before, _ = words
    taskq.out(*before, 'x="1.10"')
    stored = [task.payload for task in campaign.tasks()] or [campaign.spec().params]
    assert stored == [{"x": "1.10"}]


def test_records_that_a_file_repeats_are_counted_in_a_note(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """With the first of them; another payload under the same key is a conflict, as ever."""
    file, once = tmp_path / "twice.smi", tmp_path / "once.smi"
    file.write_text("CCO A\nCC B\nCCO A\nCC B\nCCO A\n")
    once.write_text("CCC C\nCO D\n")
    error = taskq("seed", "/c", file, once).stderr
    said = "the record is that of line 1 again, no new task; so are 2 further ones"
    assert f"Note: {file}:3: {said}" in error
    assert (error.count("Note:"), campaign.status().total) == (1, 4)
    again = taskq("seed", "/c", once)
    assert "2 known before" in again.stdout
    assert "Note:" not in again.stderr


def test_options_of_public_files_reach_the_reader(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """The place of the SMILES, the encoding, and tables without titles."""
    first = tmp_path / "first.smi"
    first.write_bytes(b"\xe9-1\tCCO\n")
    assert "--encoding cp1252" in taskq.refused("seed", "/c", first)[1]
    assert "--smiles-field 2" in taskq.refused("seed", "/c", first, "--encoding", "cp1252")[1]
    taskq.out("seed", "/c", first, "--encoding", "cp1252", "--smiles-field", "2")
    headless = tmp_path / "headless.csv"
    headless.write_text("CC(=O)O,1.50\n")
    assert "--no-header" in taskq.refused("seed", "/c", headless)[1]
    taskq.out("seed", "/c", headless, "--no-header", "--key-field", "column1", "--types", "number")
    assert payloads(campaign) == {
        "é-1": {"smiles": "CCO", "name": "é-1"},
        "CC(=O)O": {"column1": "CC(=O)O", "column2": 1.5},
    }


def test_bad_molecule_is_skipped_whole(
    taskq: CommandLine, campaign: Campaign, tmp_path: Path
) -> None:
    """`--on-error skip` skips records, never parts of one: no field of it is lost alone."""
    file = tmp_path / "joined.sdf"
    file.write_text(
        SDF.replace("E1", "$$$$ cheap") + SDF.replace("eth", "two").replace("$$$$\n", "")
    )
    taskq.out("seed", "/c", file, "--on-error", "skip")
    assert [task["fields"] for task in payloads(campaign).values() if isinstance(task, dict)] == [
        {"id": "$$$$ cheap"},
        {"id": "E1"},
    ]
