"""What can go wrong, by what the caller should do about it.

    TaskqError
    ├── UsageError            fix the call: a value is wrong; nothing was changed
    │   ├── InvalidPath         a campaign path that is not well formed
    │   ├── InvalidTask         a payload, key or priority that cannot be a task's
    │   │   └── KeyConflict       ... or a key that is stored with another payload
    │   ├── InvalidCampaign     a handler, policy or limit that cannot be a campaign's
    │   └── ValueRefused        a value that the server cannot store; its words follow
    ├── NotFound              fix the name: no such campaign, task or file
    │   ├── UnknownCampaign     ... campaign; `taskq tree` shows what there is
    │   └── ResultLost          look for the store of blobs: it has no such result, or a damaged one
    ├── Conflict              look again: the thing is not in the state that the call needs
    ├── Unauthorized          get another token: this one is unknown, expired or revoked
    ├── Forbidden             ask for more: the token does not allow this
    ├── SchemaError           run `taskq db migrate`, or use the other release
    │   ├── SchemaMissing
    │   ├── SchemaOlder
    │   └── SchemaNewer
    ├── SessionEnded          open another session: this one has expired or was ended
    ├── Unavailable           try later: no server, connection lost, disk full
    │   ├── LoginRefused        fix the address, or ask to be let in; who runs already may wait
    │   └── OutputFailed        make room and do it again: what was asked for cannot be written
    └── ServerUnsuitable      use another server: too old, wrong settings, no right to do it

Each class carries the exit code of the command line, so that a script can tell
them apart (`sysexits.h` where it has a fitting one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


class TaskqError(Exception):
    """The base of all errors that taskq raises on purpose."""

    exit_code = 1


class UsageError(TaskqError):
    """The call is wrong; nothing was changed."""

    exit_code = 2


class InvalidPath(UsageError):
    """A campaign path is not well formed."""


class InvalidTask(UsageError):
    """A payload, key or priority cannot be that of a task."""

    exit_code = 65


@dataclass(frozen=True, slots=True)
class Clash:
    """A record whose key is stored with another payload.

    stored, offered: pieces of both payloads as JSON text, which show where they first differ: at
    most 200 characters, with everything unprintable escaped. number: of the record among those that
    were seeded, from 1; of a file, that of its last line.
    """

    key: str
    stored: str
    offered: str
    number: int


class KeyConflict(InvalidTask):
    """Keys are stored with other payloads; nothing of the call or chunk was added.

    count: how many records, clashes: some of them, in order. too_long: whether they were to be kept
    under numbered keys, and one has no room for a number. added: the tasks that the same seeding
    added in earlier chunks, which stay.
    """

    def __init__(
        self,
        message: str,
        *,
        count: int = 0,
        clashes: Sequence[Clash] = (),
        too_long: bool = False,
        added: int = 0,
    ) -> None:
        super().__init__(message)
        self.count = count
        self.clashes = tuple(clashes)
        self.too_long = too_long
        self.added = added


class InvalidCampaign(UsageError):
    """A handler, policy or limit cannot be that of a campaign."""


class ValueRefused(UsageError):
    """The server cannot store a value of the call."""


class NotFound(TaskqError):
    """No such campaign, task or file."""

    exit_code = 66


class UnknownCampaign(NotFound):
    """No such campaign. path: the one that was asked for."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no campaign {path}; `taskq tree` shows what there is")
        self.path = path


class ResultLost(NotFound):
    """A result refers to a blob that is missing, or is not what was stored."""


class Conflict(TaskqError):
    """The thing exists, but not in a state that allows the call."""

    exit_code = 3


class Unauthorized(TaskqError):
    """The token is unknown, expired or revoked."""

    exit_code = 77


class Forbidden(TaskqError):
    """The token is valid, but not for this."""

    exit_code = 77


class SchemaError(TaskqError):
    """The database's schema and this release do not fit."""

    exit_code = 78


class SchemaMissing(SchemaError):
    """The database holds no taskq schema."""


class SchemaOlder(SchemaError):
    """The schema is older than this release needs."""


class SchemaNewer(SchemaError):
    """The schema was made by a newer release."""


class Unavailable(TaskqError):
    """A server or resource does not answer now; the call may be repeated later."""

    exit_code = 69


class LoginRefused(Unavailable):
    """The server answers, but lets this login not in: its name, password or database.

    For what runs already it is an outage like others, since a password may just be changed.
    """

    exit_code = 77


class OutputFailed(Unavailable):
    """The disk that output goes to is full, or fails."""

    exit_code = 74


class ServerUnsuitable(TaskqError):
    """The server can be reached but cannot carry taskq."""

    exit_code = 77


class SessionEnded(TaskqError):
    """The agent's session has expired or was ended (TQ410)."""


#: The private error codes of the server-side functions.
BY_SQLSTATE: Final[dict[str, type[TaskqError]]] = {
    "TQ400": UsageError,
    "TQ401": Unauthorized,
    "TQ403": Forbidden,
    "TQ404": NotFound,
    "TQ409": Conflict,
    "TQ410": SessionEnded,
    "TQ422": KeyConflict,
}
