"""Exceptions of taskq, grouped by what the caller should do.

The text of each class says what it means and what to do: `make schema` makes the table in
docs/errors.md of them. Each class carries an exit code of the command line, so that scripts can
distinguish them (from `sysexits.h` where it has a fitting one).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskq.model.removed import RemovedCampaign
from taskq_agent.release import how_to_install
from taskq_agent.text import clean

#: Characters shown around the wrong place of a text.
EXCERPT_CHARS: Final = 72

_NO_CAMPAIGN = re.compile(r"no campaign (/[^\s;]*)(?:; (.*))?")

#: How SQLSTATEs of a server begin that must be started anew: its files or its memory are gone.
BROKEN: Final = ("58", "XX000")


class TaskqError(Exception):
    """Any error that taskq raises on purpose. Do what its message says."""

    exit_code = 1

    def __str__(self) -> str:
        # It may quote what an agent, a submitter or a server has sent, and is printed to terminals.
        return clean(super().__str__())


class UsageError(TaskqError):
    """The call is wrong, and nothing was changed. Correct it."""

    exit_code = 2


class ExtraMissing(UsageError):
    """The call needs a package that is not installed. Run the `pip install` of the message.

    Args:
        what: Says what needs which package.
        extra: The extra of the distribution that installs it.
        otherwise: What to do instead, if anything.
    """

    def __init__(self, what: str, extra: str, otherwise: str = "") -> None:
        instead = f", or {otherwise}" if otherwise else ""
        super().__init__(f"{what}: {how_to_install(extra)}{instead}")


class InvalidPath(UsageError):
    """The path of a campaign is not well formed. Write one such as `/project/ligands`."""


class InvalidTask(UsageError):
    """A payload, key or priority cannot be that of a task. Correct the record it names."""

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

    Choose other keys, or say by `on_conflict` what becomes of such records.

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
    """A handler, policy or limit cannot be that of a campaign. Correct the setting it names."""


class InvalidFilter(UsageError):
    """A filter is not well formed. Correct the place that the message points at.

    Attributes:
        reason: Why.
        excerpt: The place, with a caret below it.
        column: Column of the place, from 0.
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
    """The server cannot store a value of the call. Change the value; its message follows."""


class NotOverGateway(UsageError):
    """The call needs PostgreSQL, and the connection is to a gateway. Connect to PostgreSQL.

    Attributes:
        call: Its name.
    """

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call} does not work over a gateway; it needs the address of PostgreSQL (TASKQ_DSN)"
        )
        self.call = call


class NotFound(TaskqError):
    """There is no such campaign, task or file. Correct the name."""

    exit_code = 66


class UnknownCampaign(NotFound):
    """There is no such campaign. `taskq tree` shows those there are, `taskq ls --removed` others.

    Attributes:
        path: The campaign's.
        removed: What is known of it, if it was removed; None if that is not known, or it never was.
    """

    def __init__(
        self, path: str, removed: RemovedCampaign | None = None, *, said: str = ""
    ) -> None:
        if removed is not None:
            said = removed.words(path)
        super().__init__(f"no campaign {path}; {said or '`taskq tree` shows what there is'}")
        self.path = path
        self.removed = removed


class ResultLost(NotFound):
    """A result refers to a blob that is missing or damaged. Check `TASKQ_BLOBS`."""


class Conflict(TaskqError):
    """The object exists, but its state does not allow the call. Read its state again."""

    exit_code = 3


class ArchiveDamaged(TaskqError):
    """A file of an archive is missing, damaged, or not what `taskq campaign archive` writes.

    Take another copy of the archive.

    Attributes:
        file: Its name in the archive.
        why: What is wrong with it.
    """

    exit_code = 65

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"archive: {file}: {why}")
        self.file = file
        self.why = why


class FunctionChanged(Conflict):
    """A campaign holds the results of another function, or of other parameters or inputs.

    Take another name, or say by `on_change` what becomes of the results.

    Attributes:
        differs: Which of "function", "params" and "inputs".
        parts: What of these, such as "the global FACTOR" and the names of params and inputs.
    """

    def __init__(self, message: str, differs: Sequence[str], parts: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.differs = tuple(differs)
        self.parts = tuple(parts)


class CampaignPaused(Conflict):
    """A campaign has paused itself while somebody waits for its results.

    Repair what the message says, then run `taskq campaign resume PATH`.

    Attributes:
        why: Its reason.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} has paused itself: {why}")
        self.why = why


class TaskFailed(TaskqError):
    """A task has failed, and not by an exception that can be raised here.

    Its `error_class` is one of the classes of error; `taskq logs` shows its output.

    Attributes:
        error_class: As `taskq failures` shows it; so is `error`.
        tail: The end of its output.
    """

    def __init__(self, key: str, error_class: str, error: str, tail: str = "") -> None:
        super().__init__(f"{error_class}: {error}" if error else error_class)
        self.key = key
        self.error_class = clean(error_class)
        self.error = clean(error)
        self.tail = clean(tail)


class ResultNotTrusted(TaskqError):
    """A result is a pickle, or an object of a class of another module, that nobody trusts.

    To read it could run code that an agent sent. Return data, or a dataclass of the function's own
    module; or use `trust=` if you trust the agents.

    Attributes:
        name: Name of the class.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class Unauthorized(TaskqError):
    """The token is unknown, expired or revoked. Ask for another."""

    exit_code = 77


class Forbidden(TaskqError):
    """The token, or the login, does not permit this call. Ask for one that does."""

    exit_code = 77


class LoginForbidden(Forbidden):
    """The login of PostgreSQL lacks a role; at a gateway, that of the gateway, whatever the token.

    The owner of the schema grants it, by the command in the message.
    """


class SchemaError(TaskqError):
    """The schema of the database does not fit this release. Do what the message says."""

    exit_code = 78


class SchemaMissing(SchemaError):
    """The database has no schema of taskq. Run `taskq db migrate`."""


class SchemaOlder(SchemaError):
    """The schema is older than this release needs. Run `taskq db migrate`."""


class SchemaNewer(SchemaError):
    """A newer release made the schema. Install that release."""


class SchemaUnreleased(SchemaError):
    """A version that was never released made the schema, which cannot be upgraded.

    Export the results with that version; then start with a new database.
    """


class MigrationFailed(SchemaError):
    """The server refused a statement of the migration; nothing was changed. See its reason."""


class Unavailable(TaskqError):
    """A server or resource does not answer now. Try again later."""

    exit_code = 69


class AgentsDied(Unavailable):
    """Agents of this machine have ended unexpectedly, or cannot be started.

    Repair what the message says.
    """


class LoginRefused(Unavailable):
    """The server refuses the login, because of its user, password or database.

    Correct the address, or ask for access. A running program retries as after any outage, since
    a password may just be changing.
    """

    exit_code = 77


class OutputFailed(Unavailable):
    """The output cannot be written: no permission, or the disk is full or fails.

    Name another place, or make room.
    """

    exit_code = 74


class ServerUnsuitable(TaskqError):
    """The server can be reached but cannot run taskq: too old, wrong settings, missing rights.

    Do what the message says, or use another server.
    """

    exit_code = 77


class SessionEnded(TaskqError):
    """The session of the agent has expired or was ended. Open another."""


def from_server(kind: type[TaskqError], text: str) -> TaskqError:
    """Return the exception for a server's text; `UnknownCampaign` if it says so."""
    if issubclass(kind, NotFound) and (found := _NO_CAMPAIGN.fullmatch(text)):
        return UnknownCampaign(found[1], said=found[2] or "")
    return kind(text)


#: The private error codes of the server-side functions.
BY_SQLSTATE: Final[dict[str, type[TaskqError]]] = {
    "TQ400": UsageError,
    "TQ401": Unauthorized,
    "TQ403": Forbidden,
    "TQ404": NotFound,
    "TQ407": LoginForbidden,
    "TQ409": Conflict,
    "TQ410": SessionEnded,
    "TQ422": KeyConflict,
}
