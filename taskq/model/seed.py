"""Basic values of the queue: campaign paths, seeds and their limits. Pure: no clock and no I/O."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from typing_extensions import Self

from taskq.model.errors import InvalidPath, InvalidTask
from taskq_agent.json_encoder import json_encoder
from taskq_agent.json_limits import has_nul_escape, json_fault
from taskq_agent.protocol import MAX_PATH_CHARS

MAX_KEY_CHARS: Final = 255
MAX_PAYLOAD_BYTES: Final = 65_536
#: Control characters: a terminal or table would obey them, and a line of text would end at some.
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
#: Nesting of objects and lists: agents refuse answers that are nested more than 100 deep.
MAX_PAYLOAD_DEPTH: Final = 64
PRIORITY_RANGE: Final = (-32_767, 32_767)
#: The statuses of tasks that no agent has, of all tasks not final, of final ones; and all.
NOT_BEGUN: Final = ("waiting", "delayed")
UNFINISHED: Final = (*NOT_BEGUN, "working")
FINAL: Final = ("done", "failed", "cancelled")
STATUSES: Final = (*UNFINISHED, *FINAL)
RETRIABLE: Final = ("failed", "cancelled", "delayed", "done")

_encode = json_encoder(ensure_ascii=False)
#: Returns the JSON of a payload, the same for equal payloads, in ASCII.
canonical: Final = json_encoder(sort_keys=True, separators=(",", ":"))

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@=,-]{0,99}")

Encoded: TypeAlias = tuple[str, str, int]


class NamedCampaign(Protocol):
    """A campaign by id and path: a `Campaign`, or its `Status`."""

    @property
    def campaign_id(self) -> int:
        """The id in the database."""

    @property
    def path(self) -> str:
        """The path."""


def check_path(path: str) -> str:
    """Return a campaign path if it is well formed: `/` or `/name/name...`.

    A name starts with a letter or digit and goes on with letters, digits and `._+@=,-`,
    100 characters at most; the whole path has 1,000 at most.
    """
    if path == "/":
        return path
    if not path.startswith("/"):
        example = f"/{path}" if _NAME.fullmatch(path.partition("/")[0]) else "/wisdom/malaria"
        raise InvalidPath(f"campaign path {path!r} must start with '/', such as {example}")
    if len(path) > MAX_PATH_CHARS:
        raise InvalidPath(f"campaign path of {len(path)} characters; {MAX_PATH_CHARS} at most")
    for name in path[1:].split("/"):
        if not _NAME.fullmatch(name):
            raise InvalidPath(
                f"campaign path {path!r}: the name {name!r} is not allowed; use letters, digits "
                "and ._+@=,- and start with a letter or digit"
            )
    return path


@dataclass(frozen=True, slots=True)
class Seed:
    """A task to add, as `Campaign.seed` takes it.

    The key identifies the task within its campaign, so that seeding twice adds nothing;
    without a key it is derived from the payload.
    """

    payload: Mapping[str, Any]
    key: str | None = None
    priority: int = 0
    _kept: Encoded | None = field(default=None, init=False, repr=False, compare=False)

    def checked(self) -> Self:
        """Return this seed with its encoded payload, which must not change afterwards.

        Raises:
            InvalidTask: It breaks a limit.
        """
        object.__setattr__(self, "_kept", self.encoded())
        return self

    def encoded(self) -> Encoded:
        """Return (key, payload as JSON text, priority), checked against the limits."""
        return self._kept or self._encoded()

    def _encoded(self) -> Encoded:
        # dict is tested first: a check against the abstract class takes a tenth of this method.
        if type(self.payload) is not dict and not isinstance(self.payload, Mapping):
            raise InvalidTask(
                "a payload must be an object of names and values, "
                f"not {type(self.payload).__name__}"
            )
        try:
            text = _encode(self.payload)
        except (TypeError, ValueError) as error:
            raise InvalidTask(f"a payload must be JSON: {error}") from None
        except RecursionError:
            raise InvalidTask("a payload must be JSON: this one is nested too deep") from None
        _check_payload(text)
        key = self.key if self.key is not None else derived_key(self.payload)
        if not isinstance(key, str):
            raise InvalidTask(f"a key must be text, not {type(key).__name__}")
        check_text("key", key)
        if not 1 <= len(key) <= MAX_KEY_CHARS:
            raise InvalidTask(f"key of {len(key)} characters; 1 to {MAX_KEY_CHARS} are allowed")
        if not key.isprintable() and (found := _CONTROL.search(key)):
            raise InvalidTask(f"key {key!a:.100} has the control character {found[0]!a}")
        if type(self.priority) is not int:
            raise InvalidTask(f"a priority must be a whole number, not {self.priority!r:.80}")
        low, high = PRIORITY_RANGE
        if not low <= self.priority <= high:
            raise InvalidTask(f"priority {self.priority} is outside {low} to {high}")
        return key, text, self.priority


def _check_payload(text: str) -> None:
    """Raise `InvalidTask` for a payload that the database or an agent would refuse."""
    if has_nul_escape(text):
        raise InvalidTask("payload contains a NUL character, which the database cannot store")
    data = check_text("payload", text)
    fault = json_fault(data, most=MAX_PAYLOAD_BYTES, deep=MAX_PAYLOAD_DEPTH)
    if fault is not None:
        raise InvalidTask(f"payload {fault}: keep large inputs in files and give their names")


def derived_key(payload: Mapping[str, Any]) -> str:
    """Return the key for a payload without one: a digest of its canonical JSON."""
    return key_of(canonical(payload))


def key_of(text: str) -> str:
    """Return the key that is a digest of text."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def is_within(path: str, scope: str) -> bool:
    """Return whether a campaign is the scope, or below it."""
    return path == scope or path.startswith(scope.rstrip("/") + "/")


def above_all(paths: Iterable[str]) -> str:
    """Return the campaign that has all of some campaigns: one of them, or the nearest above."""
    return posixpath.commonpath(paths)


def check_text(what: str, text: str) -> bytes:
    """Return text as bytes; refuse NUL and lone surrogates, which PostgreSQL cannot store."""
    if "\x00" in text:
        raise InvalidTask(f"{what} contains a NUL character, which the database cannot store")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidTask(f"{what} is not valid Unicode: it contains a lone surrogate") from None
