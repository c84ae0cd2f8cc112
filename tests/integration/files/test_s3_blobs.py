"""Blobs in S3, on a real server: in parts, under failures, with credentials from where they are."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskq.files import s3_store as s3
from taskq.files.blob_store import CHUNK_BYTES
from taskq.files.large_results import resolved
from taskq.files.s3_store import PART_BYTES, S3Blobs, S3Objects
from taskq.model.errors import NotFound, ResultLost, Unavailable, UsageError
from tests.fixtures.s3_servers import BUCKET, S3Server
from tests.helpers.waiting import wait_until

Address = Callable[[S3Server], str]
LARGE = PART_BYTES + 12_345
# The last obstore for Python 3.10 leaves them to the bucket's rule for incomplete uploads.
PARTS_GO = sys.version_info >= (3, 11)


@pytest.fixture(params=["shared_s3"])
def server(request: pytest.FixtureRequest) -> S3Server:
    """Give the server; `own` has a test that harms it get one of its own."""
    return request.getfixturevalue(request.param)


own = pytest.mark.parametrize("server", ["own_s3"], indirect=True)


@pytest.fixture
def address(server: S3Server, s3_address: Address, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a new address on that server, where failures are known soon."""
    monkeypatch.setattr(s3, "_RETRIES", s3._RETRIES | {"max_retries": 1})  # noqa: SLF001
    monkeypatch.setattr(s3, "_TIMEOUTS", s3._TIMEOUTS | {"read_timeout": "2s"})  # noqa: SLF001
    return s3_address(server)


@pytest.fixture
def prefix(address: str) -> str:
    """Give the part of the address below the bucket."""
    return address.removeprefix(f"s3://{BUCKET}/")


@pytest.mark.thorough
def test_large_blob_goes_in_parts(server: S3Server, address: str, prefix: str) -> None:
    """Under the name that a folder would give it; it is read from any offset."""
    blobs, data = S3Blobs(address), secrets.token_bytes(LARGE)
    digest, size = blobs.put([data])
    assert size == LARGE
    assert server.objects(prefix) == [f"{digest[:2]}/{digest}"]
    assert server.uploads(prefix) == []
    for offset in (0, PART_BYTES - 1, LARGE - 1):
        assert b"".join(blobs.read(digest, offset)) == data[offset:]
    with server.failing(500, "PUT .*"):
        blobs.put([data])  # which is there already


@pytest.mark.parametrize(
    "failing", [".*partNumber=2&.*", ".*partNumber=1&.*", "POST .*[?]uploads.*"]
)
def test_upload_that_is_refused_leaves_nothing(
    server: S3Server, address: str, prefix: str, failing: str
) -> None:
    """Neither an object nor parts, whichever request it was; and it says what to look at."""
    blobs, data = S3Blobs(address), secrets.token_bytes(LARGE)
    with server.failing(403, failing), pytest.raises(Unavailable, match="credentials"):
        blobs.put([data])
    assert server.objects(prefix) == []
    assert server.uploads(prefix) == [] or not PARTS_GO
    assert blobs.put([data])[1] == LARGE


def test_upload_whose_last_answer_is_lost_is_stored(
    server: S3Server, address: str, prefix: str
) -> None:
    """The request is repeated, and then there is no such upload any more."""
    blobs, data = S3Blobs(address), secrets.token_bytes(LARGE)
    with server.failing("lost", "POST .*[?]uploadId=.*"):
        digest, size = blobs.put([data])
    assert size == blobs.size(digest) == LARGE
    assert server.objects(prefix) == [f"{digest[:2]}/{digest}"]
    with server.failing(404, "POST .*[?]uploadId=.*"), pytest.raises(Unavailable):
        blobs.put([data[1:]])


def test_upload_whose_source_breaks_leaves_nothing(
    server: S3Server, address: str, prefix: str
) -> None:
    """A file that changes while it is read is stored as neither."""

    def changing() -> Iterator[bytes]:
        for _ in range(LARGE // CHUNK_BYTES):
            yield bytes(CHUNK_BYTES)
        raise UsageError("the file was changed")

    with pytest.raises(UsageError, match="was changed"):
        S3Blobs(address)._put("0" * 64, LARGE, changing())  # noqa: SLF001
    assert server.objects(prefix) == server.uploads(prefix) == []


@pytest.mark.parametrize("status", [500, 503])
def test_failing_store_is_unavailable(server: S3Server, address: str, status: int) -> None:
    """Whatever is asked of it; later it works."""
    blobs = S3Blobs(address)
    digest, _ = blobs.put([b"data"])
    with server.failing(status, ".*"):
        with pytest.raises(Unavailable, match="try again later"):
            blobs.put([b"other"])
        with pytest.raises(Unavailable, match="try again later"):
            list(blobs.read(digest))
        with pytest.raises(Unavailable, match="try again later"):
            blobs.remove_archive(digest)
    assert blobs.put([b"other"])[1] == 5
    assert list(blobs.read(digest)) == [b"data"]


@own
@pytest.mark.thorough
def test_store_that_is_killed_is_unavailable(server: S3Server, address: str) -> None:
    """It is asked again when it is back."""
    blobs = S3Blobs(address)
    digest, _ = blobs.put([b"data"])
    server.kill()
    with pytest.raises(Unavailable, match="try again later"):
        blobs.put([b"other"])
    server.start()
    assert list(blobs.read(digest)) == [b"data"]


@own
@pytest.mark.thorough
def test_store_that_hangs_is_unavailable(server: S3Server, address: str) -> None:
    """Nobody waits for ever, neither who writes nor who reads."""
    blobs = S3Blobs(address)
    digest, _ = blobs.put([b"data"])
    server.freeze()
    for ask in (lambda: blobs.put([b"other"]), lambda: list(blobs.read(digest))):
        with pytest.raises(Unavailable, match="try again later"):
            ask()
    server.thaw()
    assert list(blobs.read(digest)) == [b"data"]


@pytest.mark.thorough
def test_killed_upload_is_never_seen(server: S3Server, address: str, prefix: str) -> None:
    """Its parts are invisible, and who stores the same later does not meet them."""
    data = secrets.token_bytes(LARGE)
    program = (
        "import sys; from taskq.files.s3_store import S3Blobs\n"
        "def data():\n"
        "    while chunk := sys.stdin.buffer.read(1_048_576): yield chunk\n"
        "S3Blobs(sys.argv[1])._put(sys.argv[2], int(sys.argv[3]), data())"
    )
    digest = hashlib.sha256(data).hexdigest()
    words = [sys.executable, "-c", program, address, digest, str(LARGE)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(data[: PART_BYTES + CHUNK_BYTES])
        process.stdin.flush()
        wait_until(lambda: server.uploads(prefix))
        process.kill()
    blobs = S3Blobs(address)
    with pytest.raises(NotFound):
        blobs.size(digest)
    assert blobs.put([data]) == (digest, LARGE)
    assert b"".join(blobs.read(digest)) == data


@pytest.mark.thorough
def test_memory_does_not_grow_with_a_blob(address: str) -> None:
    """Some parts at a time are held, of what is stored and of what is read."""
    program = (
        "import os, sys; from taskq.files.s3_store import S3Blobs\n"
        "from taskq_agent.procfs import peak_bytes\n"
        "blobs = S3Blobs(sys.argv[1])\n"
        "peak = lambda: peak_bytes(os.getpid()) >> 20\n"
        "before = peak()\n"
        "digest, _ = blobs.put(i.to_bytes(4, 'big') * 262_144 for i in range(256))\n"
        "sum(map(len, blobs.read(digest)))\n"
        "print(peak() - before)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, address], stdout=subprocess.PIPE, check=True
    ).stdout
    assert int(said) < 128  # MiB, of 256


def test_damaged_object_is_noticed_by_who_reads_it(
    server: S3Server, address: str, prefix: str
) -> None:
    """A name is a digest; what was put there by others is not taken for it."""
    blobs = S3Blobs(address)
    digest, _ = blobs.put([b'{"x": 1}'])
    name = f"{digest[:2]}/{digest}"
    S3Objects(address, named_by="nothing").put(name, 8, [b'{"x": 2}'])
    assert server.objects(prefix) == [name]
    with pytest.raises(ResultLost, match="is damaged"):
        resolved({"taskq_blob": {"digest": digest}}, blobs)


@pytest.mark.parametrize(
    "wrong",
    ["", "b", "key:pw-1@bucket/x", "bucket?secret=pw-1", "bucket/../other", "bucket//x", "bu\n"],
)
def test_address_that_is_none_is_refused(wrong: str) -> None:
    """It is not repeated, since it may have a password in it."""
    with pytest.raises(UsageError, match="without credentials") as error:
        S3Blobs(f"s3://{wrong}")
    assert "pw-1" not in str(error.value)


def test_missing_bucket_raises_and_is_not_created(server: S3Server, s3_address: Address) -> None:
    """Its owner creates it with the rules that they want."""
    s3_address(server)
    with pytest.raises(Unavailable, match="create it, or correct TASKQ_BLOBS"):
        S3Blobs("s3://no-such-bucket/x").put([b"data"])


def test_credentials_come_from_files_too(
    server: S3Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the profile, with its region and endpoint, unless the environment has others."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "site")
    with pytest.raises(UsageError, match="no profile 'site'"):
        S3Blobs(address)
    config, keys = (
        Path(os.environ[name]) for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    )
    try:
        config.write_text(f"[profile site]\nregion = eu-1\nendpoint_url = {server.endpoint}\n")
        keys.write_text("[site]\naws_access_key_id = of-the-file\naws_secret_access_key = s-1\n")
        with server.failing(403, "(?!.* of-the-file$).*"):
            assert S3Blobs(address).put([b"data"])[1] == 4
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s-2")
            with pytest.raises(Unavailable, match="check the credentials") as error:
                S3Blobs(address).put([b"data"])
        assert "s-2" not in str(error.value)
        keys.write_text("aws_secret_access_key = s-1\n")
        with pytest.raises(UsageError, match="cannot be read") as wrong:
            S3Blobs(address)
        assert "s-1" not in str(wrong.value)
    finally:
        for file in (config, keys):
            file.unlink(missing_ok=True)
