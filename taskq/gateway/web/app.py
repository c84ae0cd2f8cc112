"""ASGI application of the pages: routes, access, headers, errors, and live figures."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from taskq.diagnosis.campaign_tree import Tree
from taskq.diagnosis.tables.campaigns import figures_of
from taskq.diagnosis.ticker import Ticker
from taskq.gateway.web.access import Access, Viewer, check_local
from taskq.gateway.web.acting import Acting, Shown
from taskq.gateway.web.asked import Asked
from taskq.gateway.web.molecules import Drawer
from taskq.gateway.web.pages import Pages, levels_of
from taskq.gateway.web.rendering import TYPES, render, static
from taskq.model.errors import (
    Forbidden,
    NotFound,
    TaskqError,
    Unauthorized,
    Unavailable,
    UsageError,
)
from taskq.model.page_paths import PAGES, PATHS, VIEWER_HEADER
from taskq.model.seed import check_path

log = logging.getLogger(__name__)

#: Nothing from elsewhere, no inline script or style, in no frame of others, kept by no cache.
#: Referrers are for our own pages: without any, browsers send no origin with forms.
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: The name of the secret in the printed address.
SECRET: Final = "secret"  # noqa: S105  # a name
MAX_FORM_BYTES: Final = 4_096
MAX_QUERY_CHARS: Final = 8_192
#: Viewers who get live figures, in all and with one token, and the seconds between signs of life.
MOST_VIEWERS: Final = 256
MOST_VIEWERS_OF_TOKEN: Final = 128
SILENT_S: Final = 15.0
_STATUS: Final = (
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (UsageError, 400),
    (Unavailable, 503),
)

Handler = Callable[[Request], Awaitable[Response]]


class WebApp:
    """The application; `asgi` is what a server calls."""

    def __init__(
        self, pages: Pages, ticker: Ticker, access: Access, drawer: Drawer, acting: Acting
    ) -> None:
        self._pages = pages
        self._drawer = drawer
        self._acting = acting
        self._ticker = ticker
        self._access = access
        self._figures: tuple[Tree, dict[tuple[str, int], dict[str, str]]] = (Tree(), {})
        self._following = Counter[int | None]()
        handlers = {
            **{path: self._shown(getattr(pages, name)) for path, name in PAGES.items()},
            "/live": self._live,
            "/molecule": self._molecule,
            "/act": self._act,
            "/do": self._do,
            "/sign-in": self._sign_in,
            "/sign-out": self._sign_out,
        }
        served = {path: self._guarded(serve) for path, serve in handlers.items()}
        served["/static/{name}"] = _static
        routes = [Route(path, served[path], methods=[method]) for path, method in PATHS.items()]
        routes.append(Route("/healthz", _healthy))
        self.asgi = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
        self.asgi.router.redirect_slashes = False

    def _shown(self, page: Callable[[Asked], Awaitable[str]]) -> Handler:
        async def shown(request: Request) -> Response:
            if SECRET in request.query_params and not self._access.tokens:
                return await self._admitted(request)
            viewer = await self._viewer(request)
            if len(request.url.query) > MAX_QUERY_CHARS:
                raise UsageError("the address is too long")
            asked = Asked(
                viewer,
                dict(request.query_params),
                self._access.tokens,
                acts=await self._acting.may(viewer),
            )
            return _html(await page(asked))

        return shown

    async def _admitted(self, request: Request) -> Response:
        """Sign in by the printed address, and redirect to the address without the secret."""
        check_local(request.headers)
        address = request.url.remove_query_params(SECRET)
        target = address.path + (f"?{address.query}" if address.query else "")
        return await self._signed_in(request.query_params[SECRET], target)

    async def _signed_in(self, token: str, target: str) -> Response:
        cookie = await asyncio.to_thread(self._access.sign_in, token)
        answer = RedirectResponse(target, 303, HEADERS | {"referrer-policy": "no-referrer"})
        answer.set_cookie(
            self._access.cookie,
            cookie,
            secure=self._access.secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _viewer(self, request: Request) -> Viewer:
        cookie = request.cookies.get(self._access.cookie)
        viewer = await asyncio.to_thread(self._access.viewer, request.headers, cookie)
        request.state.viewer = viewer
        return viewer

    async def _molecule(self, request: Request) -> Response:
        """Send the picture of a molecule, which no page but ours may show."""
        await self._viewer(request)
        picture = await self._drawer.draw(request.query_params.get("smiles", ""))
        if picture is None:
            raise NotFound("this is not a molecule that can be drawn")
        headers = HEADERS | {"cache-control": "private, max-age=3600"}
        return Response(picture, headers=headers, media_type="image/svg+xml")

    async def _act(self, request: Request) -> Response:
        """Show an act with the form that confirms it."""
        viewer = await self._viewer(request)
        if len(request.url.query) > MAX_QUERY_CHARS:
            raise UsageError("the address is too long")
        shown = await self._acting.shown(viewer, dict(request.query_params))
        return _html(self._act_page(shown))

    async def _do(self, request: Request) -> Response:
        """Do what a form confirms, or ask anew."""
        _check_origin(request)
        viewer = await self._viewer(request)
        shown = await self._acting.done(viewer, await _form(request))
        if shown.done:
            await self._pages.changed(shown.act.path)
        return _html(self._act_page(shown), 200 if shown.done else 409)

    def _act_page(self, shown: Shown) -> str:
        return render("act.html", shown=shown, signed_in=self._access.tokens, acts=True)

    async def _live(self, request: Request) -> Response:
        """Send what changes on a page, as server-sent events."""
        viewer = await self._viewer(request)
        path = check_path(request.query_params.get("path", "/"))
        levels = levels_of(request.query_params) or 0
        viewer.check(path)
        of_token = 0 if viewer.token_id is None else self._following[viewer.token_id]
        if self._ticker.viewers >= MOST_VIEWERS or of_token >= MOST_VIEWERS_OF_TOKEN:
            raise Unavailable("too many viewers follow pages live; reload this one now and then")

        async def still() -> bool:
            try:
                return not self._access.tokens or (await self._viewer(request)).may(path)
            except TaskqError as error:
                return isinstance(error, Unavailable)

        return StreamingResponse(
            self._events((path, levels), viewer, still),
            headers=HEADERS | {"x-accel-buffering": "no"},
            media_type="text/event-stream",
        )

    async def _events(
        self, shown: tuple[str, int], viewer: Viewer, still: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[str]:
        known: dict[str, str] = {}
        yield "retry: 3000\n\n"
        with self._ticker.followed(), self._counted(viewer):
            while True:
                try:
                    tree = await self._ticker.next_tree(SILENT_S)
                except asyncio.TimeoutError:
                    yield ": silent\n\n"
                    continue
                if not await still():
                    return
                if tree is None:
                    yield "event: away\ndata: \n\n"
                    continue
                figures = self._figures_of(tree, shown)
                fresh = {name: text for name, text in figures.items() if known.get(name) != text}
                known = figures
                yield f"data: {json.dumps(fresh)}\n\n"

    @contextmanager
    def _counted(self, viewer: Viewer) -> Iterator[None]:
        """Count a viewer for its token while the block lasts."""
        self._following[viewer.token_id] += 1
        try:
            yield
        finally:
            self._following[viewer.token_id] -= 1
            self._following += Counter()  # forgets those that have none

    def _figures_of(self, tree: Tree, shown: tuple[str, int]) -> dict[str, str]:
        """Return the figures of a page, which all its viewers share."""
        if self._figures[0] is not tree:
            self._figures = tree, {}
        known = self._figures[1]
        if shown not in known:
            known[shown] = figures_of(tree, *shown)
        return known[shown]

    async def _sign_in(self, request: Request) -> Response:
        _check_origin(request)
        form = await _form(request)
        if not self._access.tokens:
            check_local(request.headers)
        return await self._signed_in(form.get("token", ""), "/")

    async def _sign_out(self, request: Request) -> Response:
        _check_origin(request)
        self._access.sign_out(request.cookies.get(self._access.cookie))
        answer = RedirectResponse("/", 303, HEADERS)
        answer.delete_cookie(self._access.cookie, secure=self._access.secure, httponly=True)
        return answer

    def _guarded(self, serve: Handler) -> Handler:
        """Wrap a handler so that its errors become pages."""

        async def guarded(request: Request) -> Response:
            try:
                return _named(request, await serve(request))
            except ClientDisconnect:
                return Response(status_code=499)
            except Unauthorized as error:
                tried = request.url.path == "/sign-in" or SECRET in request.query_params
                why = str(error) if tried else ""
                page = render("sign_in.html", why=why, tokens=self._access.tokens)
                return _html(page, 401)
            except TaskqError as error:
                status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
                return _html(_error_page(str(error)), status)
            except Exception:
                log.exception("a page failed")
                return _html(_error_page("this page has failed; the log says why"), 500)

        return guarded


def _named(request: Request, answer: Response) -> Response:
    """Name the viewer's token in an answer, for the gateway that counts and drops the header."""
    viewer: Viewer | None = getattr(request.state, "viewer", None)
    if viewer is not None and viewer.token_id is not None:
        answer.headers[VIEWER_HEADER] = str(viewer.token_id)
    return answer


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form, each once; raise `UsageError` if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise UsageError("this form is too large")
    return dict(parse_qsl(bytes(body).decode("utf-8", "replace")))


def _check_origin(request: Request) -> None:
    """Raise `Forbidden` if a form comes from somebody else's page.

    Browsers that we support name the relation of both pages over TLS and at this machine, whatever
    a proxy makes of the host's name. Else they name the origin. Programs name neither.
    """
    relation, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if relation is not None:
        if relation in {"same-origin", "none"}:
            return
    elif origin is None or urlsplit(origin).netloc == request.headers.get("host"):
        return
    raise Forbidden(
        "this form came from a page of another site, or a proxy has changed the name of the host "
        "(a proxy must pass `Host` on)"
    )


def _html(text: str, status: int = 200) -> Response:
    return Response(
        text.encode("utf-8", "replace"), status, HEADERS, media_type="text/html; charset=utf-8"
    )


def _error_page(text: str) -> str:
    return render("error.html", text=text)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    found = static(name)
    if found is None:
        raise HTTPException(404)
    kind = TYPES.get(name[name.rfind(".") :], "application/octet-stream")
    return Response(found, headers=HEADERS | {"cache-control": "no-cache"}, media_type=kind)


async def _healthy(_: Request) -> Response:
    return Response("ok\n", headers=HEADERS, media_type="text/plain")


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers: Any = error.headers if isinstance(error, HTTPException) else None
    texts = {404: "there is no such page", 405: "this address is for other requests"}
    text = texts.get(status, "")
    answer = _html(_error_page(text or "this cannot be answered"), status)
    answer.headers.update(headers or {})
    return answer
