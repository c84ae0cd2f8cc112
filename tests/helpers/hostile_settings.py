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
    "plpgsql.check_asserts": "off",
    "enable_seqscan": "off",
    "enable_nestloop": "off",
    "enable_sort": "off",
    "geqo_threshold": "2",
    "max_parallel_workers_per_gather": "8",
    "min_parallel_table_scan_size": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "constraint_exclusion": "on",
    "temp_tablespaces": "nowhere",
    "temp_buffers": "800kB",
    "lo_compat_privileges": "on",
    "gin_fuzzy_search_limit": "1",
    "default_statistics_target": "1",
    "default_toast_compression": "pglz",
    "xmlbinary": "hex",
    "track_functions": "all",
    "idle_session_timeout": "3s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "3s",
}
ALL: Final = {**OTHER, **PINNED}
