"""A receiver of OTLP over HTTP: `python -m tests.helpers.otlp_receiver FILE`.

Writes each span as a line of JSON, as it decodes it. The path of the address says how it behaves.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

END_S = 30.0
#: Seconds for which the slow one does not answer.
SLOW_S = 3_600.0
#: Seconds between the parts of an answer without an end.
PART_S = 0.02
#: Answers of something before the receiver.
PAGES = {
    "/page-200": (200, b"<html>Sign in to the guest network</html>"),
    "/page-413": (413, b"<html><h1>413 Request Entity Too Large</h1></html>"),
}
#: Bytes that the small one takes.
SMALL = 2_000


class Handler(BaseHTTPRequestHandler):
    """Takes spans, or behaves badly: /busy, /refuse, /slow, /small, /partial, ..."""

    asked = 0

    def do_POST(self) -> None:
        """Answer a request."""
        body = self.rfile.read(int(self.headers["content-length"]))
        Handler.asked += 1
        if self.path == "/busy" or (self.path == "/once-busy" and Handler.asked == 1):
            self._answer(503, b"come \x1b[31m again")
        elif self.path == "/refuse":
            self._answer(401, b"no token")
        elif self.path == "/slow":
            time.sleep(SLOW_S)
        elif self.path == "/endless":
            while True:
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                time.sleep(PART_S)
        elif self.path == "/echo":
            self._answer(400, f"authorization: {self.headers['authorization']}".encode())
        elif self.path == "/small" and len(body) > SMALL:
            self._answer(413, b"too much")
        elif self.path in PAGES and not _lets_through().exists():
            self._answer(*PAGES[self.path], "text/html")
        elif self.path == "/cut":
            self.close_connection = True
        else:
            self._take(body)

    def _take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        assert self.headers["content-type"] == "application/x-protobuf"
        with Path(sys.argv[1]).open("a") as file:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        received = {
                            "request": Handler.asked,
                            "authorization": self.headers["authorization"],
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "name": span.name,
                            "begin": span.start_time_unix_nano,
                            "end": span.end_time_unix_nano,
                            "failed": span.status.code == span.status.STATUS_CODE_ERROR,
                            "error": span.status.message,
                            "attributes": {
                                pair.key: getattr(pair.value, str(pair.value.WhichOneof("value")))
                                for pair in span.attributes
                            },
                        }
                        file.write(json.dumps(received) + "\n")
        answer = ExportTraceServiceResponse()
        if self.path == "/partial":
            answer.partial_success.rejected_spans = 7
            answer.partial_success.error_message = "too old"
        self._answer(200, answer.SerializeToString())

    def _answer(self, status: int, body: bytes, kind: str = "application/x-protobuf") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _lets_through() -> Path:
    """Return the file that ends the pages of a proxy, once it is there."""
    return Path(f"{sys.argv[1]}.open")


@dataclass(frozen=True, slots=True)
class OtlpReceiver:
    """A receiver that runs."""

    url: str
    file: Path

    def spans(self) -> list[dict[str, Any]]:
        """Return what it has taken, in the order in which it came."""
        if not self.file.exists():
            return []
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@contextmanager
def receiving(file: Path, port: int = 0) -> Iterator[OtlpReceiver]:
    """Run a receiver while a block lasts."""
    words = [sys.executable, "-m", "tests.helpers.otlp_receiver", str(file), str(port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield OtlpReceiver(process.stdout.readline().strip(), file)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(END_S)
        assert process.stdout is not None
        process.stdout.close()


def main() -> None:
    """Serve until killed."""
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201  # for who has started it
    server.serve_forever()


if __name__ == "__main__":
    main()
