"""Stores of blobs: the same for PostgreSQL, a folder, S3, and what fsspec knows."""

from __future__ import annotations

import hashlib
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq.db.connections import Database
from taskq.files.blob_store import CHUNK_BYTES, BlobStore
from taskq.files.blobs import DatabaseBlobs, open_blobs
from taskq.files.folder_store import FolderBlobs
from taskq.files.fsspec_store import FsspecBlobs
from taskq.files.s3_store import S3Blobs
from taskq.model.errors import NotFound, Unavailable, UsageError
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough

SIZES = (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES + 12_345)


@pytest.fixture(params=rest_thorough(["database", "folder", "file://", "memory://", "s3"], 4))
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """Give each kind of store in turn, empty."""
    if request.param == "database":
        return DatabaseBlobs(request.getfixturevalue("database"))
    if request.param == "folder":
        return FolderBlobs(tmp_path)
    if request.param == "s3":
        address = request.getfixturevalue("s3_address")
        return S3Blobs(address(request.getfixturevalue("shared_s3")))
    if request.param == "file://":
        return FsspecBlobs(f"file://{tmp_path}/blobs")
    return FsspecBlobs(f"memory://{secrets.token_hex(4)}")


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pieces(data: bytes, length: int) -> Iterator[bytes]:
    return (data[start : start + length] for start in range(0, len(data), length))


@pytest.mark.parametrize("size", rest_thorough(SIZES, 3))
def test_stored_blob_reads_back_unchanged(blobs: BlobStore, tmp_path: Path, size: int) -> None:
    """From a file, a stream or memory, at any size around the parts, named by its SHA-256."""
    path = tmp_path / "file"
    for put in ("file", "stream", "memory"):
        data = secrets.token_bytes(size)
        path.write_bytes(data)
        if put == "memory":
            blobs.put_verified(digest_of(data), data)
        else:
            given = path if put == "file" else pieces(data, 70_001)
            assert blobs.put(given) == (digest_of(data), size)
        chunks = list(blobs.read(digest_of(data)))
        assert b"".join(chunks) == data
        assert all(0 < len(chunk) <= CHUNK_BYTES for chunk in chunks)
        assert blobs.size(digest_of(data)) == size


def test_blob_is_read_from_any_offset(blobs: BlobStore) -> None:
    """So that a broken transfer is resumed; at its end there is nothing more."""
    data = secrets.token_bytes(2 * CHUNK_BYTES + 99)
    digest, size = blobs.put([data])
    for offset in (1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, size - 1, size):
        assert b"".join(blobs.read(digest, offset)) == data[offset:]
        for end in (offset, offset + 1, CHUNK_BYTES, CHUNK_BYTES + 2, size, size + 9):
            assert b"".join(blobs.read(digest, offset, end)) == data[offset:end]


def test_blob_put_again_is_stored_once(blobs: BlobStore) -> None:
    """Putting is idempotent."""
    assert blobs.put([b"data"]) == blobs.put([b"data"])
    blobs.put_verified(digest_of(b"data"), b"data")
    assert list(blobs.read(digest_of(b"data"))) == [b"data"]


def test_reading_a_missing_blob_raises(blobs: BlobStore) -> None:
    """It does not look like an empty one."""
    with pytest.raises(NotFound, match="no blob 0000"):
        blobs.size("0" * 64)
    with pytest.raises(NotFound, match="no blob 0000"):
        list(blobs.read("0" * 64))


@pytest.mark.parametrize("digest", ["", "A" * 64, "0" * 63, "../" + "0" * 61, "0" * 64 + "\n"])
def test_malformed_digest_is_refused_by_blob_stores(blobs: BlobStore, digest: str) -> None:
    """A digest becomes a file's name, so nothing else may pass."""
    with pytest.raises(UsageError, match="not a SHA-256 digest"):
        list(blobs.read(digest))
    with pytest.raises(UsageError, match="not a SHA-256 digest"):
        blobs.put_verified(digest, b"")


def test_data_with_another_digest_are_refused(blobs: BlobStore) -> None:
    """Nothing is stored then."""
    with pytest.raises(UsageError, match="do not have the digest"):
        blobs.put_verified(digest_of(b"data"), b"date")
    with pytest.raises(NotFound):
        blobs.size(digest_of(b"data"))


def test_stream_that_breaks_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    """Complete or not at all."""

    def broken() -> Iterator[bytes]:
        yield b"data"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        blobs.put(broken())
    with pytest.raises(UsageError, match="more than 3 bytes"):
        blobs.put([b"data"], most=3)
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(UsageError, match="more than 3 bytes"):
        blobs.put(tmp_path / "file", most=3)
    with pytest.raises(NotFound):
        blobs.size(digest_of(b"data"))


def test_storing_a_folder_or_an_absent_file_raises(blobs: BlobStore, tmp_path: Path) -> None:
    """A folder, and one that is absent."""
    with pytest.raises(NotFound, match="no file"):
        blobs.put(tmp_path / "absent")
    with pytest.raises(UsageError, match="not a regular file"):
        blobs.put(tmp_path)


def test_place_is_chosen_by_name(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing: PostgreSQL; a path: a folder; s3: S3; a URL: fsspec; what is given wins."""
    monkeypatch.delenv("TASKQ_BLOBS", raising=False)
    assert isinstance(open_blobs(database), DatabaseBlobs)
    monkeypatch.setenv("TASKQ_BLOBS", str(tmp_path))
    assert isinstance(open_blobs(database), FolderBlobs)
    assert isinstance(open_blobs(database, "s3://bucket/prefix"), S3Blobs)
    assert isinstance(open_blobs(database, f"file://{tmp_path}"), FsspecBlobs)
    with pytest.raises(UsageError, match="absolute"):
        open_blobs(database, "blobs")
    with pytest.raises(UsageError, match=r"no folder '.*/blbos' for blobs .*mkdir -p.* --blobs"):
        open_blobs(database, str(tmp_path / "blbos"))
    assert not (tmp_path / "blbos").exists()
    with pytest.raises(UsageError, match="fsspec cannot open"):
        open_blobs(database, "nowhere://bucket")


def test_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """Its file system is not mounted, say: what lay below would be hidden when it is again."""
    place = tmp_path / "mounted"
    place.mkdir()
    store = FolderBlobs(place)
    place.rmdir()
    with pytest.raises(Unavailable, match="mounted' is gone"):
        store.put([b"data"])
    assert not place.exists()


@pytest.mark.thorough
def test_library_of_object_storages_is_imported_for_urls_only() -> None:
    """Its import takes as long as all others together, and few users need it."""
    look = "import sys, taskq, taskq_cli.main; print(bool({'fsspec', 'obstore'} & {*sys.modules}))"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True)
    assert said.stdout == b"False\n"


def test_storage_that_fails_is_unavailable(tmp_path: Path) -> None:
    """Later it may work."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable):
        FolderBlobs(tmp_path / "file").put([b"data"])
    with pytest.raises(Unavailable):
        FsspecBlobs(f"file://{tmp_path}/file").put([b"data"])


def age(postgres: Postgres) -> None:
    postgres.execute("update taskq.blob set put_at = put_at - interval '2 days'")


def removed(database: Database) -> int:
    return int(database.value("remove_unused_blobs", limit=10, age_s=86_400.0, dry_run=False))


def test_unused_blobs_are_removed_and_used_ones_stay(
    database: Database, postgres: Postgres
) -> None:
    """What an input or a result names stays, and what somebody has put within a day."""
    blobs = DatabaseBlobs(database)
    database.value("create_campaign", path="/c", spec="{}")
    as_input, size = blobs.put([b"input"])
    database.value("add_input", path="/c", name="a", digest=as_input, size=size)
    as_result, size = blobs.put([b"result"])
    postgres.execute(
        "insert into taskq.attempt (campaign_id, task_id, attempt, lease_id, session_id,"
        " claimed_at, ended_at, outcome, result) values (1, 1, 1, gen_random_uuid(), 1, now(),"
        " now(), 'done', jsonb_build_object('taskq_blob', jsonb_build_object('digest', %s::text)))",
        [as_result],
    )
    unused, _ = blobs.put([b"unused"])
    again, _ = blobs.put([b"again"])
    database.value("begin_blob", digest=bytes(32), size=1)
    assert removed(database) == 0
    age(postgres)
    blobs.put([b"again"])
    assert removed(database) == 2
    for digest in (as_input, as_result, again):
        assert blobs.size(digest)
    with pytest.raises(NotFound):
        blobs.size(unused)
    assert postgres.execute("select count(*) from taskq.blob_part").fetchone() == {"count": 3}


def test_call_removes_many_small_unused_blobs_but_few_large_ones(
    database: Database, postgres: Postgres
) -> None:
    """Each call reads all attempts, so it does much; a GiB is enough for one transaction."""
    for number in range(30):
        DatabaseBlobs(database).put([bytes([number])])
    postgres.execute(
        "insert into taskq.blob (digest, size, complete, put_at)"
        " select sha256(int4send(n)), 1 << 30, true, now() + make_interval(secs => n)"
        " from generate_series(1, 3) n"
    )
    age(postgres)
    calls = [
        int(database.value("remove_unused_blobs", limit=100, age_s=86_400.0, dry_run=dry))
        for dry in (True, False, False, False, False)
    ]
    assert calls == [33, 31, 1, 1, 0]


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 5 << 20, 8 << 20, (8 << 20) + 1])
def test_any_piece_of_a_blob_is_read_in_few_statements(database: Database, size: int) -> None:
    """A short blob is also stored with one statement, a longer one part by part."""
    data, blobs = secrets.token_bytes(size), DatabaseBlobs(database)
    digest, _ = blobs.put([data])
    for offset in {0, 1, size // 2, max(0, size - 1), size, size + 1}:
        assert b"".join(blobs.read(digest, offset)) == data[offset:]
        for end in {offset, offset + 1, (3 << 20) + 5, size, size + 7}:
            assert b"".join(blobs.read(digest, offset, end)) == data[offset:end]
    assert max(map(len, blobs.read(digest)), default=0) <= 1 << 20


def test_one_statement_takes_a_short_blob_only(database: Database) -> None:
    """A longer one would take the server's memory."""
    with pytest.raises(UsageError, match="at most 8388608"):
        database.value("put_blob", digest=bytes(32), data=bytes(8_388_609))
    with pytest.raises(NotFound, match="no blob"):
        list(DatabaseBlobs(database).read(bytes(32).hex()))


def test_two_that_store_the_same_do_not_spoil_each_other(
    database: Database, postgres: Postgres
) -> None:
    """One breaks off with wrong parts, another comes later than the first."""
    data = b"data"
    digest = hashlib.sha256(data).digest()
    broken = database.value("begin_blob", digest=digest, size=len(data))
    database.execute("put_blob_part", blob=broken, part=0, data=b"dat")
    late = database.value("begin_blob", digest=digest, size=len(data))
    database.execute("put_blob_part", blob=late, part=0, data=data)
    DatabaseBlobs(database).put([data])
    database.execute("end_blob", blob=late)
    with pytest.raises(UsageError, match="announced with 4 bytes, but 3 were stored"):
        database.execute("end_blob", blob=broken)
    assert b"".join(DatabaseBlobs(database).read(digest.hex())) == data
    age(postgres)
    assert removed(database) == 2
    assert postgres.execute("select count(*) from taskq.blob_part").fetchone() == {"count": 0}


def test_no_more_is_stored_than_was_announced(database: Database) -> None:
    """A part that the size has no room for is refused, and any once the blob is whole."""
    ask = database.value
    blob = ask("begin_blob", digest=b"d" * 32, size=1_048_577)
    for part in (0, 1):
        ask("put_blob_part", blob=blob, part=part, data=b"x")
    for part in (-1, 2, 2**31 - 1):
        with pytest.raises(NotFound, match=f"has no part {part}"):
            ask("put_blob_part", blob=blob, part=part, data=b"x")
    empty = ask("begin_blob", digest=b"e" * 32, size=1)
    ask("put_blob_part", blob=empty, part=0, data=b"x")
    ask("end_blob", blob=empty)
    with pytest.raises(NotFound, match="is not being stored"):
        ask("put_blob_part", blob=empty, part=0, data=b"y")
