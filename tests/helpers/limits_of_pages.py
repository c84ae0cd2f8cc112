"""The limits of pages for people, a part of `limits_page`."""

from __future__ import annotations

from typing import Final

#: As `LIMITS` there.
OF_PAGES: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "taskq.gateway.pages_process": (
        ("MOST", "requests to pages at a gateway at a time", "503"),
        ("MOST_OF_TOKEN", "... with one token", "503"),
        ("MAX_FORM_BYTES", "form of a page", "413"),
    ),
    "taskq.gateway.web.app": (
        ("MOST_VIEWERS", "viewers who follow pages live", "503"),
        ("MOST_VIEWERS_OF_TOKEN", "... with one token", "503"),
    ),
    "taskq.gateway.web.acts": (
        ("MOST_TASKS", "tasks that an act of a page changes", "the page shows the command"),
        ("MOST_CAMPAIGNS", "... campaigns that it goes through", "the page shows the command"),
    ),
    "taskq.gateway.web.acting": (
        ("TICKET_S", "age of a page that confirms an act", "it is asked anew"),
        ("MOST_ACTS", "acts of a token in that time", "503"),
        ("MOST_OF_TOKEN", "... at a time", "503"),
        ("MOST_AT_ONCE", "acts of all at a time", "further ones wait"),
    ),
    "taskq.gateway.web.server": (("IDLE_S", "... to `taskq web`", "the connection ends"),),
    "taskq.gateway.web.access": (
        ("MOST_SIGNED_IN", "viewers signed in", "the oldest of the token with most signs out"),
    ),
}
