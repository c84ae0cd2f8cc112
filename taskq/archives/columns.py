"""What an archive holds: its tables with their columns, the one place that declares them.

A test compares these with the schema: each column of a table that belongs to campaigns is in an
archive, or `LEFT_OUT` says why not.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["int16", "int32", "int64", "float", "bool", "text", "instant"]
Columns: TypeAlias = dict[str, str]

#: By the name of each table of an archive, its columns with their kinds; a list ends in [].
#: Text may be JSON, as PostgreSQL writes it. Those of `RANGES` have one file for each range of
#: tasks, the others one for each campaign; `campaigns` is one file.
TABLES: Final[dict[str, Columns]] = {
    "campaigns": {
        "campaign_id": "int64",
        "path": "text",
        "status": "text",
        "owner": "text",
        "created_at": "instant",
        "settings": "text",
        "inputs": "text",
        "recipe": "int32",
        "hedged": "int64",
        "payload_bytes": "int32",
        "done": "int64",
        "failed": "int64",
        "cancelled": "int64",
        "failures": "int64",
        "losses": "int64",
    },
    "recipes": {
        "change": "int32",
        "recipe": "int32",
        "changed_at": "instant",
        "changed_by": "text",
        "handler": "text",
        "params": "text",
        "inputs": "text",
    },
    "arguments": {"digest": "text", "size": "int64"},
    "trends": {
        "minute": "int32",
        "done": "int64",
        "failed": "int64",
        "failures": "int64",
        "unfinished": "int64",
        "working": "int32",
        "agents": "int32",
    },
    "sessions": {
        "session_id": "int64",
        "token_id": "int64",
        "opened_at": "instant",
        "heartbeat_at": "instant",
        "ended_at": "instant",
        "lease_s": "float",
        "expired": "bool",
        "slots": "int32",
        "pid": "int32",
        "agent": "text",
        "host": "text",
        "site": "text",
        "release": "text",
        "offers": "text[]",
        "address": "text",
        "left_why": "text",
        "end_class": "text",
        "exit_code": "int32",
        "attempts": "int32",
        "suspect": "text",
    },
    "tasks": {
        "task_id": "int64",
        "key": "text",
        "priority": "int16",
        "payload": "text",
        "status": "text",
        "attempt": "int32",
        "lease_id": "text",
        "session_id": "int64",
        "claimed_at": "instant",
        "due_at": "instant",
        "failures": "int16",
        "losses": "int16",
        "avoids": "int32[]",
    },
    "attempts": {
        "task_id": "int64",
        "attempt": "int32",
        "session_id": "int64",
        "lease_id": "text",
        "claimed_at": "instant",
        "ended_at": "instant",
        "outcome": "text",
        "exit_code": "int32",
        "error_class": "text",
        "error": "text",
        "result": "text",
        "phases": "text",
        "tail": "text",
        "refused": "bool",
        "recipe": "int32",
    },
    "withdrawals": {"task_id": "int64", "attempt": "int32", "withdrawn_at": "instant"},
    "outputs": {"task_id": "int64", "lease_id": "text", "digest": "text", "size": "int64"},
    "blobs": {"digest": "text", "size": "int64", "stored": "bool"},
}
#: Tables of a campaign that have one file, in their order.
OF_CAMPAIGN: Final = ("recipes", "arguments", "trends")
#: Tables that have a file for each range of tasks, in their order; sessions come before attempts.
RANGES: Final = ("sessions", "tasks", "attempts", "withdrawals", "outputs")

#: The table of an archive for each table of the schema that is in one.
SOURCES: Final = MappingProxyType(
    {
        "campaign": "campaigns",
        "recipe": "recipes",
        "argument": "arguments",
        "trend": "trends",
        "session": "sessions",
        "spec": "tasks",
        "task": "tasks",
        "attempt": "attempts",
        "withdrawal": "withdrawals",
        "output": "outputs",
        "blob": "blobs",
    }
)
_ID: Final = dict.fromkeys(["campaign_id"], "the folder of the file says which campaign it is")
#: Columns of these tables that are not in an archive under their own names, with the reason.
LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "campaign": {
        "parent_id": "follows from the path",
        "lineage": "follows from the path",
        "has_below": "follows from the paths",
        "revision": "begins anew",
        "paused_why": "an archived campaign is not paused",
        "running_quota": "follows from the owner's quota",
        "seeded_at": "of a seeding under way",
        "limited_at": "of attempts at work",
        "max_running": "follows from other columns",
        "requires": "follows from other columns",
        "running_limit": "in settings, as max_running",
        "memory_learns": "in settings, as memory",
        "tags": "in settings, as requires",
        "named_resources": "in settings",
    },
    "recipe": _ID,
    "argument": _ID,
    "trend": _ID,
    "session": {
        **_ID,
        "key": "a secret of the agent; a restore draws another",
        "token_hash": "a secret of the agent",
        "drain": "the agent has left",
        "banned": "the agent has left",
        "said": "of the last heartbeat",
        "claims": "of the last heartbeat",
    },
    "spec": _ID,
    "task": _ID,
    "attempt": _ID,
    "withdrawal": _ID,
    "output": {
        **_ID,
        "token_id": "a restore counts the bytes as the campaign's own",
        "decided": "only those that count are in an archive",
    },
    "blob": {
        "blob_id": "a blob is known by its digest",
        "complete": "only complete ones are in an archive",
        "put_at": "begins anew",
    },
}
#: Other tables that know campaigns, with the reason why they are not in an archive.
NOT_ARCHIVED: Final = MappingProxyType(
    {
        "archive": "of the archive itself",
        "span": "a cancelled span is a row of tasks for each of its tasks",
        "bundle": "of tasks at work",
        "checkpoint": "of tasks that are not final",
        "counter": "counted again, and compared",
        "delta": "counted again",
        "subtotal": "counted again",
        "pulse": "of a campaign at work",
        "limit_claim": "of tasks at work",
        "limit_total": "of tasks at work",
        "progress": "of tasks at work",
        "followed": "of tasks at work",
        "front_list": "of tasks that wait",
        "refusal": "of a campaign at work",
        "refused": "of a campaign at work",
        "output_use": "counted again",
        "usage": "stays when the campaign goes; what ran elsewhere was used there",
        "end_sum": "kept for a week only",
        "stone": "of campaigns that are gone",
        "retention": "begins anew",
        "removed_sum": "of what is gone",
        "result_index": "made again by taskq index",
        "blob_part": "the content of blobs is a file for each",
    }
)
