"""Settings with which a server, a database, a login or the environment would spoil a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Those that taskq sets, with values that would change an answer or make statements fail.
PINNED: Final[Mapping[str, str]] = {
    "client_encoding": "LATIN1",
    "DateStyle": "German, DMY",
    "TimeZone": "Asia/Kathmandu",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "search_path": "pg_temp, public, pg_catalog",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "plpgsql.extra_errors": "all",
    "exit_on_error": "on",
    "session_replication_role": "replica",
}
#: Those that must not matter.
OTHER: Final[Mapping[str, str]] = {
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "backslash_quote": "off",
    "escape_string_warning": "on",
    "quote_all_identifiers": "on",
    "default_transaction_deferrable": "on",
    "check_function_bodies": "on",
    "row_security": "off",
    "xmloption": "document",
    "client_min_messages": "log",
    "plan_cache_mode": "force_custom_plan",
    "enable_indexscan": "off",
    "enable_hashjoin": "off",
    "jit": "on",
    "from_collapse_limit": "1",
    "join_collapse_limit": "1",
    "lc_messages": "C.UTF-8",
    "lc_numeric": "C.UTF-8",
    "lc_monetary": "C.UTF-8",
    "lc_time": "C.UTF-8",
    "timezone_abbreviations": "India",
    "synchronous_commit": "off",
    "work_mem": "64kB",
    "plpgsql.variable_conflict": "use_column",
    "plpgsql.extra_warnings": "all",
}
ALL: Final = {**OTHER, **PINNED}
