"""Archives of somebody who means harm, and damaged ones: refused by the name of the file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taskq import Client
from taskq.archives.checking import checked
from taskq.archives.manifest import NAME
from taskq.archives.restoring import restore
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from taskq.model.errors import ArchiveDamaged
from tests.fixtures.databases import fresh_database
from tests.helpers.archives import archived, ended
from tests.helpers.command_line import CommandLine
from tests.helpers.scripted_agent import ScriptedAgent

TASKS = "c000001/tasks-000001.parquet"
ATTEMPTS = "c000001/attempts-000001.parquet"
CAMPAIGNS = "campaigns-000000.parquet"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def made(server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an archive that all tests copy."""
    folder = tmp_path_factory.mktemp("archive")
    with fresh_database(server_dsn, template) as dsn:
        database = Database(dsn).open()
        hired: list[ScriptedAgent] = []

        def hire(path: str, **words: Any) -> ScriptedAgent:
            hired.append(ScriptedAgent(database, path, **words))
            return hired[-1]

        ended(Client(database), hire, folder)
        archived(database, folder / "a")
        for agent in hired:
            agent.close()
        database.close()
    return folder / "a"


@pytest.fixture
def archive(made: Path, tmp_path: Path) -> Path:
    """Give an archive of /c."""
    return Path(shutil.copytree(made, tmp_path / "a"))


def refused(folder: Path) -> str:
    """Return the name of the file for which an archive is refused, before a queue sees it."""
    with pytest.raises(ArchiveDamaged) as raised:
        checked(folder, lambda *_: None, lambda: None)
    return raised.value.file


def change_manifest(folder: Path, change: Change) -> None:
    """Change the manifest, and nothing else."""
    manifest = json.loads((folder / NAME).read_bytes())
    change(manifest)
    (folder / NAME).write_text(json.dumps(manifest))


def announce(folder: Path, name: str) -> None:
    """Let the manifest announce a file as it is now, with its digest and rows."""

    def note(manifest: dict[str, Any]) -> None:
        (entry,) = (file for file in manifest["files"] if file["name"] == name)
        content = (folder / name).read_bytes()
        entry["bytes"], entry["sha256"] = len(content), hashlib.sha256(content).hexdigest()
        entry["rows"] = pq.ParquetFile(folder / name).metadata.num_rows

    change_manifest(folder, note)


def rewrite(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the rows of a file, and announce it as if it were right."""
    table = pq.read_table(folder / name)
    rows = table.to_pylist()
    change(rows)
    changed = pa.Table.from_pylist(rows, schema=table.schema)
    pq.write_table(changed, folder / name, compression="zstd", use_dictionary=False)
    announce(folder, name)


def first(**values: object) -> Callable[[list[dict[str, Any]]], object]:
    """Change values of the first row."""
    return lambda rows: rows[0].update(values)


def of(state: str, **values: object) -> Callable[[list[dict[str, Any]]], object]:
    """Change values of the first row with a status or outcome."""

    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if state in (row.get("status"), row.get("outcome"))).update(values)

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.update(taskq_archive=2),
        lambda it: it.pop("taskq_archive"),
        lambda it: it.update(path=["/c"]),
        lambda it: it.update(archive="../../etc"),
        lambda it: it.update(tasks=True),
        lambda it: it.update(tasks=-1),
        lambda it: it.update(tasks=1),
        lambda it: it.update(campaigns=10**9),
        lambda it: it.update(files=[]),
        lambda it: it.update(files="all"),
        lambda it: it.update(more=1),
        lambda it: it["files"].reverse(),
        lambda it: it["files"].append(it["files"][-1]),
        lambda it: it["files"][3].update(name="../../../etc/passwd"),
        lambda it: it["files"][3].update(name="/etc/passwd"),
        lambda it: it["files"][3].update(name="c000009/tasks-000001.parquet"),
        lambda it: it["files"][3].update(rows=1 << 60),
        lambda it: it["files"][3].update(sha256=None),
        lambda it: it["task_ids"].update(first=1, last=(1 << 63) - 3),
        lambda it: it["task_ids"].update(first=-5),
        lambda it: it["session_ids"].update(last="9"),
        lambda it: it.update(task_ids=None),
        lambda it: it.update(blobs=0),
    ],
)
def test_manifest_of_another_form_is_refused(archive: Path, change: Change) -> None:
    change_manifest(archive, change)
    assert refused(archive) == NAME


def test_manifest_that_is_no_json_or_too_long_is_refused(archive: Path) -> None:
    for content in (b"", b"[" * 100_000, b"\x80\x04N.", b"{}", b'{"taskq_archive": NaN}'):
        (archive / NAME).write_bytes(content)
        assert refused(archive) == NAME
    with (archive / NAME).open("wb") as file:
        file.truncate((1 << 26) + 1)
    assert refused(archive) == NAME
    (archive / NAME).unlink()
    assert refused(archive) == NAME


def test_missing_cut_and_flipped_files_are_named(archive: Path) -> None:
    path = archive / ATTEMPTS
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100] + bytes([content[100] ^ 1]) + content[101:], b""):
        path.write_bytes(damaged)
        assert refused(archive) == ATTEMPTS
    path.unlink()
    assert refused(archive) == ATTEMPTS
    path.mkdir()
    assert refused(archive) == ATTEMPTS
    path.rmdir()
    os.mkfifo(path)
    assert refused(archive) == ATTEMPTS


def test_links_below_the_folder_are_not_followed(archive: Path, tmp_path: Path) -> None:
    (archive / ATTEMPTS).rename(tmp_path / "attempts")
    (archive / ATTEMPTS).symlink_to(tmp_path / "attempts")
    assert refused(archive) == ATTEMPTS
    (archive / ATTEMPTS).unlink()
    (tmp_path / "attempts").rename(archive / ATTEMPTS)
    (archive / "c000001").rename(tmp_path / "moved")
    (archive / "c000001").symlink_to(tmp_path / "moved")
    assert refused(archive).startswith("c000001/")


def test_damaged_content_of_a_blob_is_named(archive: Path) -> None:
    blob = next(path for path in (archive / "blobs").rglob("*") if path.is_file())
    content = blob.read_bytes()
    for damaged in (content + b"x", content[:-1], b"x" * len(content)):
        blob.write_bytes(damaged)
        assert refused(archive) == str(blob.relative_to(archive))
    blob.unlink()
    blob.symlink_to("/etc/passwd")
    assert refused(archive) == str(blob.relative_to(archive))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (TASKS, first(task_id=10**15)),
        (TASKS, first(task_id=None)),
        (TASKS, first(status="waiting")),
        (TASKS, of("done", status="failed")),
        (TASKS, first(key="")),
        (TASKS, first(key=None)),
        (TASKS, first(payload="x" * ((1 << 20) + 1))),
        (TASKS, lambda rows: rows.reverse()),
        (ATTEMPTS, first(task_id=10**6)),
        (ATTEMPTS, first(session_id=999)),
        (ATTEMPTS, of("done", outcome="lost")),
        (ATTEMPTS, first(outcome="elsewhere")),
        (ATTEMPTS, lambda rows: rows.append(rows[-1])),
        (CAMPAIGNS, first(path="/")),
        (CAMPAIGNS, first(path="/other")),
        (CAMPAIGNS, first(path="/c/../..")),
        (CAMPAIGNS, first(status="archived")),
        (CAMPAIGNS, first(settings="{}")),
        (CAMPAIGNS, first(settings="[" * 10_000)),
        (CAMPAIGNS, first(inputs='{"../x": {"digest": "..", "size": -1}}')),
        (CAMPAIGNS, first(inputs='{"x": {"digest": "..", "where": "/etc"}}')),
        (CAMPAIGNS, first(done=3)),
        (CAMPAIGNS, lambda rows: rows.reverse()),
        (CAMPAIGNS, lambda rows: rows[1].update(path="/d/below")),
        (CAMPAIGNS, lambda rows: rows[1].update(path="/c/x/below")),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(
    archive: Path,
    name: str,
    change: Callable[[list[dict[str, Any]]], object],
) -> None:
    rewrite(archive, name, change)
    assert refused(archive) == name


def test_handler_that_is_none_is_refused(archive: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        settings = json.loads(rows[0]["settings"])
        settings["handler"] = {"kind": "function", "archive": "../x", "name": "f"}
        rows[0]["settings"] = json.dumps(settings)

    rewrite(archive, CAMPAIGNS, change)
    assert refused(archive) == CAMPAIGNS


def test_value_that_the_tables_refuse_names_its_file_and_can_be_removed(
    queue: Client, database: Database, archive: Path
) -> None:
    """What only PostgreSQL finds comes late; nobody can use the campaign then."""
    rewrite(archive, TASKS, first(payload='{"x": 1e131000}'))
    with pytest.raises(ArchiveDamaged) as raised:
        restore(database, open_blobs(database), archive, None, lambda *_: None)
    assert raised.value.file == TASKS
    campaign = queue.campaign("/c")
    assert campaign.status().state == "archived"
    campaign.remove()


@pytest.mark.thorough
def test_tables_of_another_shape_are_refused(archive: Path) -> None:
    table = pq.read_table(archive / TASKS)
    packed = pa.table({"x": ["a" * 1_000] * 1_000_000})
    for wrong, words in (
        (table.drop_columns("key"), {}),
        (table.append_column("more", table["key"]), {}),
        (table.set_column(0, "task_id", table["task_id"].cast(pa.string())), {}),
        (table, {"compression": "gzip"}),
        (table, {"use_dictionary": True}),
        (packed, {"use_dictionary": True}),
    ):
        pq.write_table(wrong, archive / TASKS, **{"compression": "zstd", **words})
        announce(archive, TASKS)
        assert refused(archive) == TASKS


@pytest.mark.thorough
def test_columns_that_unpack_to_very_much_are_refused_unread(archive: Path) -> None:
    """A hundred megabytes of one letter are a few kilobytes in the file."""
    table = pq.read_table(archive / TASKS)
    rows = table.to_pylist()
    rows[0]["payload"] = "x" * 100_000_000
    bomb = pa.Table.from_pylist(rows, schema=table.schema)
    pq.write_table(bomb, archive / TASKS, compression="zstd", use_dictionary=False)
    assert (archive / TASKS).stat().st_size < 1_000_000
    announce(archive, TASKS)
    assert refused(archive) == TASKS


def test_end_of_a_file_that_announces_a_long_description_is_refused(archive: Path) -> None:
    content = (archive / TASKS).read_bytes()
    for announced in (0x7FFFFFFF, 0xFFFFFFFF, 1):
        (archive / TASKS).write_bytes(content[:-8] + announced.to_bytes(4, "little") + b"PAR1")

        def note(manifest: dict[str, Any]) -> None:
            (entry,) = (file for file in manifest["files"] if file["name"] == TASKS)
            entry["sha256"] = hashlib.sha256((archive / TASKS).read_bytes()).hexdigest()

        change_manifest(archive, note)
        assert refused(archive) == TASKS


def test_command_names_the_damaged_file(taskq: CommandLine, archive: Path) -> None:
    (archive / ATTEMPTS).write_bytes(b"")
    code, text = taskq.refused("campaign", "restore", archive)
    assert code == 65
    assert ATTEMPTS in text
