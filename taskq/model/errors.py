"""Exceptions of taskq, grouped by what the caller should do.

    TaskqError
    ├── UsageError            fix the call: a value is wrong; nothing was changed
    │   ├── InvalidPath         a campaign path that is not well formed
    │   ├── InvalidTask         a payload, key or priority that cannot be a task's
    │   │   └── KeyConflict       ... or a key that is stored with another payload
    │   ├── InvalidCampaign     a handler, policy or limit that cannot be a campaign's
    │   ├── InvalidFilter       a filter that is not well formed
    │   ├── ValueRefused        a value that the server cannot store; its message follows
    │   ├── NotOverGateway      a call that needs PostgreSQL's address instead of a gateway's
    │   └── ExtraMissing        a call that needs a package which an extra of taskq installs
    ├── NotFound              fix the name: no such campaign, task or file
    │   ├── UnknownCampaign     ... campaign; `taskq tree` shows what there is
    │   └── ResultLost          look for the store of blobs: it has no such result, or a damaged one
    ├── Conflict              read again: the object is not in the state that the call needs
    │   ├── FunctionChanged     the campaign's results are of another function, or other parameters
    │   └── CampaignPaused      fix what it says, and resume it: nobody works on these tasks
    ├── TaskFailed            look at its error: a task has failed, and not by an exception
    ├── ResultNotTrusted      say trust=...: to read the result could execute what an agent sent
    ├── Unauthorized          get another token: this one is unknown, expired or revoked
    ├── Forbidden             ask for more: the token does not allow this
    ├── SchemaError           run `taskq db migrate`, or use the other release
    │   ├── SchemaMissing
    │   ├── SchemaOlder
    │   ├── SchemaNewer
    │   ├── SchemaUnreleased
    │   └── MigrationFailed
    ├── SessionEnded          open another session: this one has expired or was ended
    ├── Unavailable           try later: no server, connection lost, disk full
    │   ├── AgentsDied          mend what the message says: agents of this machine have ended
    │   ├── LoginRefused        fix the address or ask for access; running programs may retry
    │   └── OutputFailed        free disk space, or name another place: the output cannot be written
    └── ServerUnsuitable      use another server: too old, wrong settings, no right to do it

Each class carries an exit code of the command line, so that scripts can distinguish
them (from `sysexits.h` where it has a fitting one).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskq_agent.release import DISTRIBUTION

#: Characters shown around the wrong place of a text.
EXCERPT_CHARS: Final = 72


class TaskqError(Exception):
    """Base class of all errors that taskq raises deliberately."""

    exit_code = 1


class UsageError(TaskqError):
    """The call is wrong; nothing was changed."""

    exit_code = 2


class ExtraMissing(UsageError):
    """A package is not installed that an extra of the distribution brings.

    what: says what needs which package. otherwise: what to do instead, if anything.
    """

    def __init__(self, what: str, extra: str, otherwise: str = "") -> None:
        instead = f", or {otherwise}" if otherwise else ""
        super().__init__(f"{what}: pip install '{DISTRIBUTION}[{extra}]'{instead}")


class InvalidPath(UsageError):
    """A campaign path is not well formed."""


class InvalidTask(UsageError):
    """A payload, key or priority is not valid for a task."""

    exit_code = 65


@dataclass(frozen=True, slots=True)
class Clash:
    """A record whose key is stored with another payload.

    Attributes:
        stored: Excerpt of the payload as JSON text from where both first differ: at most 200
            characters, with unprintable characters escaped.
        offered: The same of the record's payload.
        number: Position of the record among the seeded ones, from 1; in a file, the number of its
            last line.
    """

    key: str
    stored: str
    offered: str
    number: int


class KeyConflict(InvalidTask):
    """Keys are stored with other payloads; nothing of the call or chunk was added.

    Attributes:
        count: Number of such records.
        clashes: Some of them, in order.
        too_long: Whether a key is too long for the number that the call asked for.
        added: Tasks that the same seeding added in earlier chunks, which stay.
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
    """A handler, policy or limit is not valid for a campaign."""


class InvalidFilter(UsageError):
    """A filter is not well formed.

    Attributes:
        reason: Why.
        excerpt: The place, with a caret below it.
        column: Of the place, from 0.
    """

    def __init__(self, reason: str, text: str, column: int) -> None:
        self.reason = f"the filter cannot be read at column {column + 1}: {reason}"
        self.column = column
        self.excerpt = _pointed_at(text, column)
        super().__init__(f"{self.reason}\n{self.excerpt}")


def _pointed_at(text: str, column: int) -> str:
    """Return the part of a text around a column, with a caret on the line below."""
    first = max(0, column - EXCERPT_CHARS // 2)
    shown = "".join(c if c.isprintable() else " " for c in text[first : first + EXCERPT_CHARS])
    wide = sum(
        (unicodedata.east_asian_width(c) in "WF") - bool(unicodedata.combining(c))
        for c in shown[: column - first]
    )
    return f"  {shown}\n  {' ' * (column - first + wide)}^"


class ValueRefused(UsageError):
    """The server cannot store a value of the call."""


class NotOverGateway(UsageError):
    """The call needs PostgreSQL, and the connection is to a gateway.

    Attributes:
        call: Its name.
    """

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call} does not work over a gateway; it needs the address of PostgreSQL (TASKQ_DSN)"
        )
        self.call = call


class NotFound(TaskqError):
    """No such campaign, task or file."""

    exit_code = 66


class UnknownCampaign(NotFound):
    """No such campaign.

    Attributes:
        path: The campaign's.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"no campaign {path}; `taskq tree` shows what there is")
        self.path = path


class ResultLost(NotFound):
    """A result refers to a blob that is missing or damaged."""


class Conflict(TaskqError):
    """The object exists, but its state does not allow the call."""

    exit_code = 3


class FunctionChanged(Conflict):
    """A campaign holds the results of another function, or of other parameters or inputs.

    Attributes:
        differs: Which of "function", "params" and "inputs".
    """

    def __init__(self, message: str, differs: Sequence[str]) -> None:
        super().__init__(message)
        self.differs = tuple(differs)


class CampaignPaused(Conflict):
    """A campaign has paused itself while somebody waits for its results.

    Attributes:
        why: Its reason.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} has paused itself: {why}")
        self.why = why


class TaskFailed(TaskqError):
    """A task has failed, and not by an exception that can be raised here.

    Attributes:
        error_class: As `taskq failures` shows it; so is `error`.
        tail: The end of its output.
    """

    def __init__(self, key: str, error_class: str, error: str, tail: str = "") -> None:
        super().__init__(f"{error_class}: {error}" if error else error_class)
        self.key = key
        self.error_class = error_class
        self.error = error
        self.tail = tail


class ResultNotTrusted(TaskqError):
    """A result is a pickle of a class that the reader does not trust.

    Attributes:
        name: Of the class.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class Unauthorized(TaskqError):
    """The token is unknown, expired or revoked."""

    exit_code = 77


class Forbidden(TaskqError):
    """The token is valid, but does not permit this operation."""

    exit_code = 77


class SchemaError(TaskqError):
    """The database's schema does not fit this release."""

    exit_code = 78


class SchemaMissing(SchemaError):
    """The database holds no taskq schema."""


class SchemaOlder(SchemaError):
    """The schema is older than this release needs."""


class SchemaNewer(SchemaError):
    """The schema was made by a newer release."""


class SchemaUnreleased(SchemaError):
    """The schema was made by a version that was not released, and cannot be upgraded."""


class MigrationFailed(SchemaError):
    """The server has refused a statement of the migration; nothing was changed."""


class Unavailable(TaskqError):
    """A server or resource does not answer now; retry later."""

    exit_code = 69


class AgentsDied(Unavailable):
    """Agents started on this machine have ended unexpectedly, or cannot be started."""


class LoginRefused(Unavailable):
    """The server refuses the login, because of its user, password or database.

    A running program retries as after any outage, since a password may just be changing.
    """

    exit_code = 77


class OutputFailed(Unavailable):
    """The output cannot be written: no permission at its place, or its disk is full or fails."""

    exit_code = 74


class ServerUnsuitable(TaskqError):
    """The server can be reached but is not suitable for taskq."""

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
