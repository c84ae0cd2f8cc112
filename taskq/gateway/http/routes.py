"""Routes from methods and paths to endpoints; a path may end with one parameter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from taskq.gateway.http.errors import ClientLeft, ErrorAnswer
from taskq.gateway.http.request import ClientRequest
from taskq.gateway.http.response import HttpResponse

#: What an endpoint does in a task; None as its response: it has answered, or a callback will.
Steps: TypeAlias = Coroutine[Any, Any, HttpResponse | None]
#: An endpoint; None: it has answered, or a callback will.
Serve: TypeAlias = Callable[[ClientRequest], Steps | None]

_PARAMETER: Final = re.compile(r"(.*/)\{[a-z]+\}")


class Routes:
    """Routes; `serve` takes each request. declared: methods and paths, as they were added.

    failed: returns the answer for an exception. failures: refusals by code. hint: where a client
    finds what is served.
    """

    def __init__(
        self, failed: Callable[[Exception], ErrorAnswer], failures: Counter[str], hint: str
    ) -> None:
        self.declared: list[tuple[str, str]] = []
        self._failed = failed
        self._failures = failures
        self._hint = hint
        # What serves each path, by method; and the same by what stands before a parameter.
        self._whole: dict[bytes, dict[bytes, Serve]] = {}
        self._parted: dict[str, dict[bytes, Serve]] = {}

    def add(self, method: str, path: str, serve: Serve) -> None:
        """Add a route, as in `/v1/blobs/{digest}`; one for GET answers HEAD too."""
        self.declared.append((method, path))
        parted = _PARAMETER.fullmatch(path)
        if parted is None:
            by_method = self._whole.setdefault(path.encode(), {})
        else:
            by_method = self._parted.setdefault(parted[1], {})
        by_method[method.encode()] = serve
        if method == "GET":
            by_method[b"HEAD"] = serve

    def serve(self, request: ClientRequest) -> None:
        """Begin to answer a request."""
        # The usual target is a path as it was added.
        by_method = self._whole.get(request.target) or self._found(request)
        serve = None if by_method is None else by_method.get(request.method)
        if by_method is None:
            self._refuse(request, 404, "not_found", f"there is nothing at this path; {self._hint}")
        elif serve is None:
            allow = b"allow: %s\r\n" % b", ".join(sorted(by_method))
            text = f"this path has other methods; {self._hint}"
            self._refuse(request, 405, "not_allowed", text, allow)
        elif b"%" in request.target and (fault := request.target_fault()) is not None:
            self._refuse(request, 400, "malformed", fault)
        else:
            try:
                steps = serve(request)
            except Exception as error:  # noqa: BLE001  # each is answered, and defects are logged
                request.refuse(self._failed(error))
            else:
                if steps is not None:
                    request.link.spawn(self._answered(request, steps))

    def _found(self, request: ClientRequest) -> dict[bytes, Serve] | None:
        path = request.path
        begin, slash, request.value = path.rpartition("/")
        return self._whole.get(path.encode()) or (
            self._parted.get(begin + slash) if request.value else None
        )

    def _refuse(
        self, request: ClientRequest, status: int, code: str, text: str, lines: bytes = b""
    ) -> None:
        self._failures[code] += 1
        request.refuse(ErrorAnswer(status, code, text), lines)

    async def _answered(self, request: ClientRequest, steps: Steps) -> None:
        """Send what an endpoint returns, or the answer for what it raises."""
        try:
            response = await steps
            if response is not None:
                await response.send(request)
        except ClientLeft:
            pass  # counted where it is noticed
        except Exception as error:  # noqa: BLE001  # each is answered, and defects are logged
            request.refuse(self._failed(error))
