"""Limits that SQL and Lua know, for the table of limits; see `limits_page`."""

from __future__ import annotations

from typing import Final

#: Of a file, the place of the value, the end that its name would have, and the same two.
OTHERWISE: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    ("sql/functions/sessions/beat.sql", r"> (\d+) from", "_BYTES", "rest of a heartbeat", "TQ400"),
    (
        "sql/functions/claims/take.sql",
        r"(\d+) / greatest\(",
        "_BYTES",
        "payloads of a claim",
        "fewer tasks",
    ),
    (
        "sql/functions/files/add_argument.sql",
        r"between 0 and (\d+) then",
        "_BYTES",
        "argument of a function as a blob",
        "`InvalidTask`; TQ400",
    ),
    ("sql/functions/files/put_input.sql", r" >= (\d+) then", "", "inputs of a campaign", "TQ400"),
    (
        "sql/functions/tasks/filter_path.sql",
        r"filter\) > (\d+)",
        "_BYTES",
        "compiled filter",
        "TQ400",
    ),
    ("sql/functions/owners/set_quota.sql", r"v_most .* := (\d+)", "", "quotas", "TQ409"),
    (
        "sql/functions/owners/add_usage.sql",
        r"v_most .* := (\d+)",
        "",
        "sites that `taskq usage` keeps apart, of a campaign in an hour",
        "`others`",
    ),
    (
        "sql/functions/diagnosis/add_end_sums.sql",
        r"v_most_sorts .* := (\d+)",
        "",
        "classes of error and shapes of results whose times are kept, of a campaign in ten minutes",
        "`other`",
    ),
    (
        "sql/functions/diagnosis/add_end_sums.sql",
        r"v_most constant .* := (\d+)",
        "",
        "rows of sums by campaign, host and sort of end, of ten minutes or an hour",
        "added without the host",
    ),
    (
        "sql/functions/sessions/ban.sql",
        r"v_most_campaigns .* := (\d+)",
        "",
        "campaigns for which a host or site is banned",
        "TQ409",
    ),
    (
        "sql/functions/owners/set_quota.sql",
        r"1 to (\d+) char",
        "_CHARS",
        "name of an owner",
        "TQ400",
    ),
    ("sql/functions/limits/set_limit.sql", r"v_most .* := (\d+)", "", "named limits", "TQ409"),
    (
        "sql/functions/limits/set_limit.sql",
        r"1 to (\d+) letters",
        "_CHARS",
        "name of a limit",
        "TQ400",
    ),
    (
        "sql/functions/upkeep/note_stopped.sql",
        r"v_most_of_login .* := (\d+)",
        "",
        "notes that a login leaves of programs that ended by an error",
        "left out",
    ),
    (
        "sql/functions/notifications/create_notify_rule.sql",
        r"v_most .* := (\d+)",
        "",
        "notification rules",
        "TQ409",
    ),
    (
        "sql/functions/notifications/start_maintenance.sql",
        r"v_most .* := (\d+)",
        "",
        "maintenance windows that have not ended",
        "TQ409",
    ),
    (
        "sql/functions/notifications/note_look.sql",
        r"v_most_over .* := (\d+)",
        "",
        "troubles that are over",
        "the oldest are forgotten",
    ),
    (
        "sql/functions/notifications/watched_paths.sql",
        r"limit (\d{2,})",
        "",
        "campaigns of managers' tokens at which keepers look",
        "those of the latest tokens",
    ),
    (
        "sql/functions/notifications/note_look.sql",
        r"v_waiting .* := (\d+)",
        "",
        "events of a rule that wait",
        "later",
    ),
    (
        "sql/functions/notifications/take_messages.sql",
        r" limit (\d{2,})",
        "",
        "events of a message",
        "the next one",
    ),
    (
        "sql/functions/notifications/end_message.sql",
        r"v_tries .* := (\d+)",
        "",
        "tries of a message",
        "given up",
    ),
    (
        "taskq/front/scripts/pop.lua",
        r"MAX_ENTRY.* = (\d+),",
        "_BYTES",
        "entry in Redis",
        "not taken",
    ),
)
