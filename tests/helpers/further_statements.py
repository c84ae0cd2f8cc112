"""How statements of archives, bans and scopes are asked: a part of the cases of a campaign."""

from __future__ import annotations

from typing import Any, Final

#: An archive that does not exist. Statements about it refuse before they read a task.
_NOT_THERE: Final = {"path": "/new", "manifest": "0" * 64}


def further_values(
    campaign: int, task: int, page: int, sessions: int
) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return for each statement what it may cost in rows, and its values.

    task: one of the campaign, with which a range of `page` begins. sessions: those that are open.
    """
    own = {"campaign": campaign}
    within = {**own, "after": task - 1, "upto": task + page - 1}
    place = {"kind": "host", "name": "h", "path": "/new"}
    ranges = ("tasks", "attempts", "sessions", "withdrawals", "outputs")
    return {
        "archived_campaigns": (0, {"path": "/new"}),
        **{f"archived_{name}": (0, own) for name in ("arguments", "recipes", "trends")},
        **{f"archived_{name}": (page, within) for name in ranges},
        "archived_range": (page, {**own, "after": task - 1, "most": page}),
        "begin_archive": (0, {"path": "/new"}),
        "end_archive": (
            0,
            {
                "path": "/new",
                "archive": "00000000-0000-7000-8000-000000000000",
                "place": "/a",
                "digest": "0" * 64,
                "remove": False,
            },
        ),
        "begin_restore": (
            0,
            {
                **_NOT_THERE,
                "campaigns": "[]",
                "seal": "",
                "first_task": 1,
                "last_task": 2,
                "first_session": 1,
                "last_session": 2,
            },
        ),
        "begin_removal": (0, {"path": "/new"}),
        "retention": (0, {"path": "/new"}),
        "explain_removals": (0, {"path": "/new", "limit": 10}),
        "retain": (page, {"campaign": campaign, "after": 0, "limit": page}),
        "removed_campaigns": (0, {"path": "/new", "below": True, "most": 10}),
        "restore_rows": (
            0,
            {**_NOT_THERE, "after": 0, "many": 1, "campaign": 0, "name": "tasks", "rows": "[]"},
        ),
        "end_restore": (0, {**_NOT_THERE, "rows": 0}),
        "ban": (sessions, {**place, "why": "it fails", "lifetime_s": None}),
        "banned": (0, {"host": "h", "site": "s", "path": "/new"}),
        "unban": (sessions, place),
        "end_sums": (
            0,
            {
                "path": "/new",
                "per": ["host"],
                "since": "2000-01-01T00:00:00Z",
                "most": page,
                "places": None,
            },
        ),
        "acts": (0, {"path": "/new", "verbs": None, "most": page}),
        "begin_act": (0, {"path": "/new", "verb": "cancel", "what": ["by key"]}),
        "explain_changes": (1, {"path": "/new", "limit": page}),
        "place_runs": (page, {**place, "most": page}),
        "failing_sizes": (page, {"path": "/new", "most": page}),
        "attempt_times": (page, {"path": "/new", "most": page}),
        "sharing_campaigns": (0, {"scope": "/new", "most": 10}),
        "maintenance": (0, {"path": "/new", "lately_s": 60.0}),
        "start_maintenance": (
            0,
            {
                "path": "/new",
                "sites": [],
                "hosts": ["h"],
                "why": "it is mended",
                "lasts_s": 60.0,
                "in_s": 0.0,
            },
        ),
        "trouble_watch": (0, {"path": "/new", "whole": True}),
        "trouble_rows": (0, {"path": "/new", "whole": True, "since": "2000-01-01Z", "limit": 10}),
        "failing_campaigns": (2, {"path": "/new"}),
        "to_cancel": (2, {"path": "/new"}),
        "held_since": (page, {"path": "/new", "sessions": [1]}),
        "slot_kinds": (sessions + 1, {"scope": "/new"}),
    }
