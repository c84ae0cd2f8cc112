"""Bugs in what shows the queue: the full screen, and pages at a gateway."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TOP: Final = ("tests/integration/top/test_top.py",)
_PAGES: Final = ("tests/integration/gateway/test_pages.py",)
_MOLECULES: Final = ("tests/integration/web/test_molecules.py",)

LOOKING: Final = (
    Mutant(
        "majority-called-odd",
        "taskq/diagnosis/odd_results.py",
        "if len(hosts) > 2 and odd > _MOST_ODD * len(results):",
        "if False:",
        "Hosts are accused though as many others have results like theirs.",
        ("tests/unit/test_odd_results.py",),
    ),
    Mutant(
        "results-compared-in-the-order-of-the-file",
        "sql/functions/diagnosis/latest_results.sql",
        "order by s.claimed_at, s.task_id) as place",
        "order by s.task_id) as place",
        "A late host, which gets tasks of low priority, is accused of their results.",
        ("tests/integration/explaining/test_wrong_results.py",),
    ),
    Mutant(
        "action-without-a-yes",
        "cli/taskq_cli/top/app.py",
        "            if yes:\n",
        "            if True:\n",
        "A key that was pressed by mistake pauses a campaign.",
        _TOP,
    ),
    Mutant(
        "raw-errors-of-tasks",
        "cli/taskq_cli/top/panel.py",
        "[one_line(column.text(row)) for column in shown]",
        "[column.text(row) for column in shown]",
        "A terminal obeys what a payload has written.",
        _TOP,
    ),
    Mutant(
        "scopes-without-those-above",
        "sql/queries/scopes.sql",
        "    or t.lineage @> array[c.campaign_id]\n",
        "",
        "Agents of a campaign above the one that is looked at are not counted.",
        _TOP,
    ),
    Mutant(
        "page-that-no-gateway-has",
        "taskq/model/page_paths.py",
        "(*PAGES, ",
        "(*(one for one in PAGES if one != '/owners'), ",
        "A link of a page leads nowhere.",
        _PAGES,
    ),
    Mutant(
        "viewers-never-leave",
        "taskq/gateway/pages_process.py",
        "            writer.close()\n            self._under_way -= 1\n",
        "            writer.close()\n",
        "After some requests nobody is shown a page any more.",
        _PAGES,
    ),
    Mutant(
        "live-pages-hold-up-a-drain",
        "taskq/gateway/pages_process.py",
        "while not ending() and (chunk",
        "while (chunk",
        "A gateway that is to end waits for its viewers.",
        _PAGES,
    ),
    Mutant(
        "servers-for-any-token-at-a-gateway",
        "sql/queries/gateways.sql",
        "-- @gateway manager, quiet, whole",
        "-- @gateway manager, quiet",
        "Who manages one campaign sees the gateways and the database of all.",
        ("tests/integration/gateway/test_presence.py",),
    ),
    Mutant(
        "servers-for-any-token-on-pages",
        "taskq/gateway/web/pages.py",
        "        if whole:  # they",
        "        if True:  # they",
        "Who manages one campaign sees the gateways and the database of all.",
        ("tests/integration/web/test_access.py",),
    ),
    Mutant(
        "pictures-for-everybody",
        "taskq/gateway/web/app.py",
        "        await self._viewer(request)\n        picture",
        "        picture",
        "Who has no token makes the server draw molecules.",
        _MOLECULES,
    ),
    Mutant(
        "hostile-molecule-is-drawn-again",
        "taskq/gateway/web/molecules.py",
        "            await self.close()\n            return None\n",
        "            return None\n",
        "After a molecule that takes for ever, each other one gets its answer.",
        _MOLECULES,
    ),
)
