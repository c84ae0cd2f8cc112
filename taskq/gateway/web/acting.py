"""Acts of viewers: confirmed by a ticket, done once, logged with who did it.

A page with an act has a ticket: a signature of this process over the viewer's cookie, the act, how
many tasks it concerned, and the time. So nobody else's page can make a browser act, an old page
cannot either, and neither can one that showed fewer tasks than it would concern now: these are
asked anew. A ticket counts once. Who sends it again, by a double click or a reload, sees what
became of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from taskq.db.connections import Database
from taskq.db.headers import Offer
from taskq.gateway.permits import PermittedQueries, permit
from taskq.gateway.web.access import Viewer
from taskq.gateway.web.act import Act
from taskq.gateway.web.acts import FIELDS, look
from taskq.model.errors import Forbidden, ServerUnsuitable, Unauthorized, Unavailable

#: Who did what, at level INFO.
log: Final = logging.getLogger("taskq.pages")

#: Seconds for which a ticket counts.
TICKET_S: Final = 600.0
#: Acts under way at a time, further ones of others wait; those of one token, further ones do not.
MOST_AT_ONCE: Final = 2
MOST_OF_TOKEN: Final = 2
#: Acts of a token within the life of a ticket.
MOST_ACTS: Final = 100
#: By how much more than its page has shown an act may concern: tasks are seeded and fail meanwhile.
_GROWTH: Final = 0.05
#: Seconds after which it is looked up again whether the login may act.
_RIGHT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page of an act shows.

    done: what was done; empty: it is to be confirmed. why: why it has to be confirmed anew.
    """

    act: Act
    fields: Mapping[str, str]
    by: str
    ticket: Mapping[str, str]
    done: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Under:
    """An act under way or done, by its ticket."""

    begun: float
    token_id: int | None
    outcome: asyncio.Future[Shown]


class Acting:
    """Looks at acts and does them; for one asyncio loop."""

    def __init__(self, database: Database) -> None:
        """database: the primary's."""
        self._database = database
        self._key = secrets.token_bytes(32)
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._of_token = Counter[int | None]()
        self._known: dict[str, _Under] = {}
        self._may = (float("-inf"), False)

    async def may(self, viewer: Viewer) -> bool:
        """Return whether a viewer may act: with a manager's token, if the login may run acts."""
        if viewer.token_id is None:
            return False
        looked_at, may = self._may
        if not may and time.monotonic() > looked_at + _RIGHT_S:
            self._may = time.monotonic(), await asyncio.to_thread(self._has_right)
        return self._may[1]

    def _has_right(self) -> bool:
        try:
            with self._database.transaction() as statements:
                permit(statements, bytes(32), Offer("manager"))
        except Unauthorized:
            return True
        except (ServerUnsuitable, Unavailable):
            return False
        return False

    async def shown(self, viewer: Viewer, query: Mapping[str, str], *, why: str = "") -> Shown:
        """Return what the page asks that confirms an act; nothing is changed."""
        await self._check(viewer)
        async with self._turn(viewer):
            return await asyncio.to_thread(self._look, viewer, _kept(query), why)

    async def done(self, viewer: Viewer, form: Mapping[str, str]) -> Shown:
        """Do an act by its ticket, or return what became of it; or what has to be confirmed anew.

        An act goes on when its viewer is gone.
        """
        await self._check(viewer)
        self._forget_old()
        ticket = form.get("ticket", "")
        known = self._known.get(ticket)
        if known is not None and known.token_id == viewer.token_id:
            return await asyncio.shield(known.outcome)
        of_token = sum(it.token_id == viewer.token_id for it in self._known.values())
        if of_token >= MOST_ACTS:
            raise Unavailable(f"a token acts {MOST_ACTS} times in ten minutes at most")
        outcome = asyncio.ensure_future(self._do(viewer, form))
        self._known[ticket] = _Under(time.monotonic(), viewer.token_id, outcome)
        outcome.add_done_callback(lambda _: self._settle(ticket, outcome))
        return await asyncio.shield(outcome)

    async def _check(self, viewer: Viewer) -> None:
        if viewer.token_id is None:
            raise Forbidden(
                "only viewers with a manager's token act in pages: `taskq web --require-token`"
            )
        if not await self.may(viewer):
            raise Forbidden(
                "these pages change nothing: their login lacks the role; "
                "`taskq db grant manager LOGIN` lets viewers do what their tokens allow"
            )

    def _settle(self, ticket: str, outcome: asyncio.Future[Shown]) -> None:
        """Keep only what was done: all else can be sent again."""
        if outcome.cancelled() or outcome.exception() is not None or not outcome.result().done:
            self._known.pop(ticket, None)

    def _forget_old(self) -> None:
        long_ago = time.monotonic() - TICKET_S
        for ticket, it in list(self._known.items()):
            if it.begun > long_ago:
                break
            if it.outcome.done():
                del self._known[ticket]

    @asynccontextmanager
    async def _turn(self, viewer: Viewer) -> AsyncIterator[None]:
        if self._of_token[viewer.token_id] >= MOST_OF_TOKEN:
            raise Unavailable("other requests of your token are under way; try again soon")
        self._of_token[viewer.token_id] += 1
        try:
            async with self._turns:
                yield
        finally:
            self._of_token[viewer.token_id] -= 1
            self._of_token += Counter()  # forgets those that have none

    async def _do(self, viewer: Viewer, form: Mapping[str, str]) -> Shown:
        async with self._turn(viewer):
            return await asyncio.to_thread(self._act, viewer, form)

    def _look(self, viewer: Viewer, fields: Mapping[str, str], why: str = "") -> Shown:
        queries = PermittedQueries(self._database, viewer.token_hash)
        act = look(queries, fields, whole=viewer.may("/"))
        words = {"seen": f"{act.tasks}", "at": f"{time.time():.0f}", "nonce": secrets.token_hex(8)}
        words["ticket"] = self._signed(viewer, fields, act, words)
        return Shown(act, fields, queries.by, words, why=why)

    def _act(self, viewer: Viewer, form: Mapping[str, str]) -> Shown:
        fields = _kept(form)
        shown = self._look(viewer, fields)
        act, seen = shown.act, form.get("seen", "")
        expected = self._signed(viewer, fields, act, form)
        if not hmac.compare_digest(form.get("ticket", "").encode(), expected.encode()):
            return _again(shown, "This was not confirmed by a page that you have now.")
        if time.time() > int(form["at"]) + TICKET_S:
            return _again(shown, "The page was old.")
        if act.tasks > int(seen) * (1 + _GROWTH):
            return _again(shown, f"It concerned {int(seen):,} before, and now more.")
        if act.refused:
            return shown
        did = act.run()
        log.info("%s (token %s) at the pages: %s: %s", shown.by, viewer.token_id, act.command, did)
        return Shown(act, fields, shown.by, {}, done=did)

    def _signed(
        self, viewer: Viewer, fields: Mapping[str, str], act: Act, words: Mapping[str, str]
    ) -> str:
        """Return the ticket of an act for a viewer."""
        own = {name: words.get(name, "") for name in ("seen", "at", "nonce")}
        text = json.dumps([viewer.key, dict(sorted(fields.items())), act.about, own])
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _again(shown: Shown, why: str) -> Shown:
    return Shown(shown.act, shown.fields, shown.by, shown.ticket, why=why)


def _kept(given: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that say what is to be done."""
    return {name: given[name] for name in FIELDS if given.get(name)}
