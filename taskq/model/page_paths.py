"""The paths of the pages: `taskq web` serves them, and a gateway with pages passes them on."""

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
