"""Tasks from payloads with named fields, which provide the key and the priority.

A key of several fields consists of their values, joined by commas; commas and backslashes in a
value are escaped by a backslash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskq.ingest.sources.records import SourceOptions, key_fields
from taskq.model.errors import InvalidTask
from taskq.model.seed import Seed


def seed_from(
    payload: Mapping[str, Any],
    fields: Mapping[str, Any],
    options: SourceOptions,
    key: str | None = None,
) -> Seed:
    """Return the task of a payload; raise `InvalidTask` if the task is not valid.

    The options name the fields with key and priority; `key` is the key if they name none.
    """
    if options.key is not None:
        key = _key(options.key, fields)
    priority = 0 if options.priority is None else _priority(options.priority, fields)
    return Seed(payload, key, priority).checked()


def _key(key: str, fields: Mapping[str, Any]) -> str:
    names = key_fields(key)
    if len(names) == 1:
        value = _key_part(names[0], fields)
        if not value:
            raise InvalidTask(f"the key field {names[0]!r} is empty")
        return value
    values = [_key_part(name, fields) for name in names]
    if not any(values):
        raise InvalidTask(f"the key fields {' and '.join(map(repr, names))} are all empty")
    # Escaped, so that different values never make the same key.
    return ",".join([value.replace("\\", "\\\\").replace(",", "\\,") for value in values])


def _key_part(name: str, fields: Mapping[str, Any]) -> str:
    value = _field("key", name, fields)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidTask(f"the key field {name!r} must be text or a whole number, not {value!r}")
    return str(value)


def _priority(name: str, fields: Mapping[str, Any]) -> int:
    value = _field("priority", name, fields)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidTask(
            f"the priority field {name!r} must be a whole number, not {value!r}"
        ) from None


def _field(role: str, name: str, fields: Mapping[str, Any]) -> Any:
    if name not in fields:
        raise InvalidTask(f"there is no field {name!r} to take the {role} from")
    return fields[name]
