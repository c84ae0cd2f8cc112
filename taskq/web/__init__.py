"""Pages for people who rather look: `taskq web`, a server of its own beside the queue.

It reads what the commands read, by the same functions, and writes nothing. Pages are rendered here
(`pages.py` reads, `templates/` says how it looks, `charts.py` draws), work without scripts, and
load nothing from elsewhere. What is live comes from one ticker for all viewers (`live.py`, with
`tree.py`): one statement a second at most. What takes more than a few milliseconds is kept for some
seconds and read by two threads at most (`readings.py`), so that many viewers cost what one does.
`access.py` says who may look.
"""

from __future__ import annotations

from typing import Final

#: Each page, with the method of `pages.Pages` that writes it.
PAGES: Final = {
    "/": "overview",
    "/campaign": "campaign",
    "/hosts": "hosts",
    "/sites": "sites",
    "/agents": "agents",
    "/owners": "owners",
    "/task": "task",
}
#: What is served, with its method of HTTP: here, and by a gateway that has pages.
PATHS: Final = {
    **dict.fromkeys((*PAGES, "/live", "/molecule", "/static/{name}"), "GET"),
    **dict.fromkeys(("/sign-in", "/sign-out"), "POST"),
}
