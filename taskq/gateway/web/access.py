"""Access to pages: by the printed address, or with a manager's token.

Without tokens, the address has a secret of this process. The secret is needed even on this machine:
other users of it may send requests, and so may a proxy that sends its own name for the host's.
Requests that name another host, or say that they came through a proxy, are refused even with the
secret: a stranger's page in a browser here may send requests to a name of the stranger that leads
to this machine (DNS rebinding).

A browser that signs in with the secret or a token gets a cookie. The cookie is random; only this
process knows what it stands for. A token is looked up again every few seconds, so that a revoked or
expired token shows nothing more. The number of cookies is bounded: one more takes the place of the
oldest of the token that has the most, so a token that signs in without end signs out itself.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from taskq.db.connections import Database
from taskq.db.tokens import hashed
from taskq.model.errors import Forbidden, Unauthorized
from taskq.model.seed import is_within
from taskq_agent.http.gateways import is_loopback

#: Seconds between look-ups of a token; a revocation works within 30.
FRESH_S: Final = 10.0
#: Seconds without a request after which a viewer has to sign in again.
IDLE_S: Final = 12 * 3_600.0
MOST_SIGNED_IN: Final = 10_000
MAX_TOKEN_CHARS: Final = 200
_PROXIED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host")


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer of pages. paths: the campaigns that may be seen, each with all below it.

    token_id: the viewer's token; None with the secret of an address. key: what only this viewer
    sends, hashed: of the cookie, or of the token.
    """

    paths: tuple[str, ...]
    token_id: int | None = None
    token_hash: bytes = b""
    key: str = ""

    def may(self, path: str) -> bool:
        """Return whether a campaign may be seen."""
        return any(is_within(path, top) for top in self.paths)

    def check(self, path: str) -> None:
        """Raise `Forbidden` unless a campaign may be seen."""
        if not self.may(path):
            raise Forbidden(f"your token is not for {path}, but for {', '.join(self.paths)}")


EVERYTHING: Final = Viewer(("/",))


@dataclass(slots=True)
class _SignedIn:
    token_hash: bytes
    viewer: Viewer
    known_at: float
    seen_at: float


class Access:
    """The viewers who have signed in. Threads use it, one at a time for each cookie."""

    def __init__(
        self,
        database: Database,
        *,
        secret: str | None,
        secure: bool,
        port: int = 0,
        fresh_s: float = FRESH_S,
    ) -> None:
        """secret: the address's; None if tokens are needed. secure: whether over TLS.

        port: of the address; browsers send a cookie to all ports of a host.
        """
        self._fresh_s = fresh_s
        self._database = database
        self._secret = secret
        self.tokens = secret is None
        self.secure = secure
        name = "taskq" if self.tokens else f"taskq-{port}"
        self.cookie: Final = f"__Host-{name}" if secure else name
        self._signed_in: dict[str, _SignedIn] = {}
        # The cookies of each token, the oldest first.
        self._of_token: dict[bytes, dict[str, None]] = {}
        self._lock = threading.Lock()  # for changes of both

    def viewer(self, headers: Mapping[str, str], cookie: str | None) -> Viewer:
        """Return the sender of a request; raise `Unauthorized` or `Forbidden`."""
        if not self.tokens:
            check_local(headers)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._identified(token)
        known = self._signed_in.get(cookie or "")
        if known is None or time.monotonic() > known.seen_at + IDLE_S:
            raise Unauthorized("sign in")
        known.seen_at = time.monotonic()
        if self.tokens and known.seen_at > known.known_at + self._fresh_s:
            try:
                known.viewer = self._viewer_of(known.token_hash)
            except Unauthorized:
                self.sign_out(cookie)
                raise
            known.known_at = known.seen_at
        return replace(known.viewer, key=hashed(cookie or "").hex())

    def sign_in(self, token: str) -> str:
        """Return a new cookie for a token or the secret; raise `Unauthorized` if it is neither."""
        token = token[:MAX_TOKEN_CHARS]
        viewer = self._identified(token)
        cookie, now = secrets.token_urlsafe(32), time.monotonic()
        with self._lock:
            if len(self._signed_in) >= MOST_SIGNED_IN:
                cookies: dict[str, None] = max(self._of_token.values(), key=len)
                self._forget(next(iter(cookies)))
            signed_in = _SignedIn(hashed(token.strip()), viewer, now, now)
            self._signed_in[cookie] = signed_in
            self._of_token.setdefault(signed_in.token_hash, {})[cookie] = None
        return cookie

    def sign_out(self, cookie: str | None) -> None:
        """Forget a cookie."""
        with self._lock:
            self._forget(cookie or "")

    def _forget(self, cookie: str) -> None:
        known = self._signed_in.pop(cookie, None)
        if known is not None:
            of_token = self._of_token[known.token_hash]
            del of_token[cookie]
            if not of_token:
                del self._of_token[known.token_hash]

    def _identified(self, token: str) -> Viewer:
        if self._secret is None:
            return self._viewer_of(hashed(token.strip()))
        if hmac.compare_digest(token.strip().encode(), self._secret.encode()):
            return EVERYTHING
        raise Unauthorized("this is not the secret of the address that `taskq web` has printed")

    def _viewer_of(self, token_hash: bytes) -> Viewer:
        row = self._database.row("identify", hashes=[token_hash])
        if row is None or row["session_id"] is not None:
            raise Unauthorized("this is not a manager's token, or it has expired or was revoked")
        return Viewer(tuple(row["paths"]), row["token_id"], token_hash, token_hash.hex())


def check_local(headers: Mapping[str, str]) -> None:
    """Raise `Forbidden` unless a request names this machine, and came through no proxy."""
    name = headers.get("host", "")
    host = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if not is_loopback(host):
        raise Forbidden(
            f"this is for http://localhost and http://127.0.0.1 only, not for {name!r:.100}; "
            "`taskq web --require-token` answers under other names"
        )
    if any(header in headers for header in _PROXIED):
        raise Forbidden("this came through a proxy; behind one, run `taskq web --require-token`")
