"""The paths of the web pages: `taskq web` serves them, and a gateway with pages forwards them."""

from __future__ import annotations

from typing import Final

#: Each page, with the method of `pages.Pages` that writes it.
PAGES: Final = {
    "/": "overview",
    "/campaign": "campaign",
    "/hosts": "hosts",
    "/sites": "sites",
    "/agents": "agents",
    "/heat": "heat",
    "/owners": "owners",
    "/task": "task",
}
#: Each path that is served, here and by a gateway with pages, with its HTTP method.
PATHS: Final = {
    **dict.fromkeys((*PAGES, "/act", "/live", "/molecule", "/static/{name}"), "GET"),
    **dict.fromkeys(("/do", "/sign-in", "/sign-out"), "POST"),
}
#: Names the viewer's token in answers of the process that serves pages at a gateway.
VIEWER_HEADER: Final = "taskq-viewer"
