"""Objects in S3, or a server that speaks its protocol; the store of blobs there.

The only module that imports obstore.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taskq.files.blob_store import CHUNK_BYTES, BlobStore, check_digest, parts
from taskq.model.errors import ExtraMissing, NotFound, TaskqError, Unavailable, UsageError

if TYPE_CHECKING:
    from obstore.store import S3Credential

#: A larger blob goes in parts of this size, two at a time, which bounds the memory it takes.
PART_BYTES: Final = 8 * CHUNK_BYTES
PARTS_AT_A_TIME: Final = 2

_ADDRESS: Final = re.compile(
    r"s3://([a-z0-9][a-z0-9._-]{1,253}[a-z0-9])((?:/[\w=+-][\w.=+-]*)*)/?", re.ASCII
)
#: Timeouts of a request: to connect, to the next data, in all (1 GiB to a slow reader).
_TIMEOUTS: Final = {"connect_timeout": "5s", "read_timeout": "20s", "timeout": "1h"}
_RETRIES: Final = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"max_backoff": timedelta(seconds=4)},
}
#: Files of credentials are read again after this time, since others rotate them.
_CREDENTIALS_LAST: Final = timedelta(minutes=5)
#: If one of these is set, obstore finds the credentials; the files come after them.
_FOUND_BY_OBSTORE: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


class S3Objects:
    """Objects under s3://bucket/prefix, each by its name below the prefix.

    An object appears whole or not at all. Parts that a killed process has uploaded are never
    visible; the bucket's rule for incomplete uploads removes them. A request that fails is repeated
    some times, within 20 s. All methods raise `Unavailable` if the server fails or refuses.
    """

    def __init__(self, url: str, *, named_by: str) -> None:
        """Raise `UsageError` if the address or the files of AWS are wrong, or obstore is missing.

        Credentials, region and endpoint come from the places that AWS's own tools read: the
        environment, the files of a profile (`AWS_PROFILE`), or a machine of AWS; never the address.

        named_by: what people correct if there is no such bucket.
        """
        address = _ADDRESS.fullmatch(url)
        if address is None:  # it may contain a password, so the error does not repeat it
            raise UsageError(
                "an address in S3 is s3://bucket or s3://bucket/prefix, without credentials"
            )
        try:
            # An extra that few users need.
            import obstore  # noqa: PLC0415
            from obstore.exceptions import (  # noqa: PLC0415
                PermissionDeniedError,
                UnauthenticatedError,
            )
            from obstore.store import S3Store  # noqa: PLC0415
        except ImportError:
            raise ExtraMissing(f"{url} needs obstore", "s3") from None
        #: The address, without a slash at its end.
        self.url = url.rstrip("/")
        self._named_by = named_by
        self._s3 = obstore
        self._refusals = (PermissionDeniedError, UnauthenticatedError)
        try:
            self._store = S3Store(
                address[1],
                prefix=address[2].strip("/") or None,
                retry_config=_RETRIES,  # type: ignore[arg-type]  # its type is for checkers only
                **_found(),
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise UsageError(f"{url}: {_first_line(error)}") from None

    def size(self, name: str) -> int:
        """Return the length of an object in bytes; raise `NotFound` if it is not here."""
        with self._translated(name):
            return int(self._s3.head(self._store, name)["size"])

    def read(self, name: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield an object from an offset on, in chunks of 1 MiB at most; see `BlobStore.read`."""
        if end is not None and offset >= end:
            return
        part: Any = {"offset": offset} if end is None else (offset, end)
        whole = not offset and end is None
        with self._translated(name):
            options: Any = None if whole else {"range": part}
            try:
                found = self._s3.get(self._store, name, options=options)
            except self._s3.exceptions.GenericError:
                if offset and offset >= self.size(name):  # S3 refuses such a range
                    return
                raise
            yield from parts(map(bytes, found.stream(min_chunk_size=1)))

    def put(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        """Store an object of `size` bytes in place of what has its name.

        chunks: can be iterated again.
        """
        data = b"".join(chunks) if size <= PART_BYTES else chunks
        with self._translated(name):
            try:
                self._s3.put(
                    self._store,
                    name,
                    data,
                    use_multipart=size > PART_BYTES,
                    chunk_size=PART_BYTES,
                    max_concurrency=PARTS_AT_A_TIME,
                )
            except FileNotFoundError as error:
                if size <= PART_BYTES or "NoSuchUpload" not in f"{error}":
                    raise self._no_bucket() from None
                # The answer to the last request was lost, and repeated it found no parts any more.
                if not self._has(name, size):
                    raise Unavailable(
                        f"{self.url} has lost parts of {name}; try again later"
                    ) from None

    def remove(self, name: str) -> None:
        """Remove an object; nothing if it is not here."""
        with suppress(NotFound), self._translated(name):
            self._s3.delete(self._store, name)

    def first(self) -> str | None:
        """Return the name of some object; None if there are none."""
        with self._translated("the list of its objects"):
            try:
                for page in self._s3.list(self._store, chunk_size=1):
                    for found in page:
                        return str(found["path"])
            except self._s3.exceptions.GenericError as error:
                if "404 Not Found" in _first_line(error):
                    raise self._no_bucket() from None
                raise
        return None

    def _has(self, name: str, size: int) -> bool:
        with suppress(NotFound):
            return self.size(name) == size
        return False

    def _no_bucket(self) -> Unavailable:
        return Unavailable(
            f"{self.url}: there is no such bucket; create it, or correct {self._named_by}"
        )

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except TaskqError:
            raise
        except FileNotFoundError:
            raise NotFound(f"{self.url} has no {name}") from None
        except (self._s3.exceptions.BaseError, OSError) as error:
            why = _first_line(error)
            if isinstance(error, self._refusals) or "403 Forbidden" in why:  # of a list
                raise Unavailable(
                    f"{self.url} refuses {name}: check the credentials and their rights: {why}"
                ) from error
            raise Unavailable(f"{self.url} fails at {name}; try again later: {why}") from error


class S3Blobs(BlobStore):
    """Keeps blobs under s3://bucket/prefix, with the names of `FolderBlobs`."""

    def __init__(self, url: str, *, named_by: str = "TASKQ_BLOBS") -> None:
        """Raise as `S3Objects` does."""
        self._objects = S3Objects(url, named_by=named_by)

    def size(self, digest: str) -> int:
        """Return the length of a blob in bytes; raise `NotFound` if it is not here."""
        with self._missing(digest):
            return self._objects.size(_key(digest))

    def read(self, digest: str, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a blob from an offset on, in chunks of 1 MiB at most; see `BlobStore.read`."""
        with self._missing(digest):
            yield from self._objects.read(_key(digest), offset, end)

    def remove_archive(self, digest: str) -> None:
        """Remove an object; nothing if it is not here."""
        self._objects.remove(_key(digest))

    def _put(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        with suppress(NotFound):
            if self.size(digest) == size:
                return
        self._objects.put(_key(digest), size, chunks)

    @contextmanager
    def _missing(self, digest: str) -> Iterator[None]:
        try:
            yield
        except NotFound:
            raise NotFound(f"{self._objects.url} has no blob {digest}") from None


def _key(digest: str) -> str:
    return f"{check_digest(digest)[:2]}/{digest}"


def _first_line(error: Exception) -> str:
    """Return the part of an error that is for people."""
    first = f"{error.args[0] if error.args else error}".strip().partition("\n")[0]
    return first[max(first.find("Error performing"), 0) :][:300]


def _found() -> dict[str, Any]:
    """Return the settings that obstore does not find alone."""
    environ, profile = os.environ, _profile()
    options: dict[str, Any] = {"client_options": dict(_TIMEOUTS)}
    endpoint = (
        environ.get("AWS_ENDPOINT_URL_S3")
        or environ.get("AWS_ENDPOINT_URL")
        or profile.get("endpoint_url")
    )
    if endpoint:
        options["endpoint"] = endpoint
        options["client_options"]["allow_http"] = endpoint.startswith("http://")
    if "region" in profile and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & environ.keys():
        options["region"] = profile["region"]
    if bundle := environ.get("AWS_CA_BUNDLE"):
        try:
            options["client_options"]["root_certificate"] = Path(bundle).read_bytes()
        except OSError as error:
            raise UsageError(f"AWS_CA_BUNDLE: {bundle!r}: {error.strerror}") from None
    if "aws_access_key_id" in profile and not environ.keys() & {*_FOUND_BY_OBSTORE}:
        options["credential_provider"] = _of_the_files
    return options


def _of_the_files() -> S3Credential:
    """Return the present credentials of the profile."""
    profile = _profile()
    return {
        "access_key_id": profile.get("aws_access_key_id", ""),
        "secret_access_key": profile.get("aws_secret_access_key", ""),
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(timezone.utc) + _CREDENTIALS_LAST,
    }


def _profile() -> dict[str, str]:
    """Return the settings of the profile in AWS's two files; empty if they do not have it."""
    name = os.environ.get("AWS_PROFILE", "default")
    found: dict[str, str] = {}
    for variable, usual, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
    ):
        file = os.environ.get(variable, usual)
        read = configparser.RawConfigParser()
        try:
            read.read(Path(file).expanduser(), encoding="utf-8")
        except (configparser.Error, OSError, ValueError):  # whose text may quote a secret
            raise UsageError(f"{file!r} cannot be read as a file of AWS profiles") from None
        if read.has_section(section):
            found |= read[section]
    if not found and "AWS_PROFILE" in os.environ:
        raise UsageError(f"AWS_PROFILE: the files of AWS have no profile {name!r}")
    return found
