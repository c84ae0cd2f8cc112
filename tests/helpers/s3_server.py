"""A server of S3: moto's, which keeps what it has acknowledged, and fails on demand.

    python -m tests.helpers.s3_server PORT FOLDER

moto keeps all in memory. So each object that was put in one request is also a file in
`FOLDER/kept` before that is acknowledged, and is put again at the next start. `FOLDER/faults` has a
status and a pattern: requests with such a line, which ends with the key of who asks, get that
status instead. Words in place of a status lie: `other`, another byte in the midst of the answer;
`former`, what was put under the name at first; `empty`, a list without objects; `lost`, an error
in place of the first answer, although what was asked has been done.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple
from werkzeug.test import Client

from tests.fixtures.s3_servers import BUCKET


class Application:
    """The server as an application of WSGI."""

    def __init__(self, folder: Path) -> None:
        self._faults, self._kept = folder / "faults", folder / "kept"
        self._kept.mkdir(exist_ok=True)
        self._former: dict[str, bytes] = {}
        self._lost: set[str] = set()
        self._moto = DomainDispatcherApplication(create_backend_app)
        moto = Client(self._moto)
        assert moto.put(f"/{BUCKET}").status_code == 200
        for file in self._kept.iterdir():
            if not file.name.startswith("."):
                assert moto.put(unquote(file.name), data=file.read_bytes()).status_code == 200

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        method, path, query = (
            environ[name] for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING")
        )
        data = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(data)
        fault = self._faults.read_text() if self._faults.exists() else ""
        status, _, pattern = fault.partition(" ")
        key = re.search("Credential=([^/]+)", environ.get("HTTP_AUTHORIZATION", ""))
        if fault and re.fullmatch(pattern, f"{method} {path}?{query} {key[1] if key else ''}"):
            if not status.isdecimal():
                return self._lie(status, path, environ, start_response)
            start_response(f"{status} As Ordered", [("Content-Length", "0")])
            return []
        if method == "PUT" and not query:
            self._former.setdefault(path, data)
            file = self._kept / quote(path, safe="")
            unfinished = file.with_name(f".{file.name}.{id(environ)}")
            unfinished.write_bytes(data)
            unfinished.replace(file)
        if method == "DELETE" and not query:
            (self._kept / quote(path, safe="")).unlink(missing_ok=True)
        answer: Iterable[bytes] = self._moto(environ, start_response)
        return answer

    def _lie(
        self, lie: str, path: str, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer with other content than there is."""
        said: list[Any] = []

        def start(*words: Any) -> None:
            said[:] = words

        body = bytearray(b"".join(self._moto(environ, start)))
        if lie == "other" and body:
            body[len(body) // 2] ^= 1
        elif lie == "former":
            body[:] = self._former[path]
        elif lie == "empty":
            body[:] = re.sub(rb"<Contents>.*</Contents>", b"", bytes(body), flags=re.DOTALL)
        status, headers, *_ = said
        if lie == "lost" and path not in self._lost:
            self._lost.add(path)
            status, body[:] = "500 Lost", b""
        kept = [pair for pair in headers if pair[0].lower() != "content-length"]
        start_response(status, [*kept, ("Content-Length", str(len(body)))])
        return [bytes(body)]


class Quiet(WSGIRequestHandler):
    """Keeps connections, and logs no requests."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until somebody ends it."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    run_simple("127.0.0.1", port, Application(folder), threaded=True, request_handler=Quiet)


if __name__ == "__main__":
    main()
