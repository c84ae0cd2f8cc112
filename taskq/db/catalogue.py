"""The catalogue of statements: the texts that the library sends, and who may run each.

A statement is a file of `sql/queries`, or a function of `sql/functions` with its own parameters:
the signature in its file gives the call. The folder of a function is its subject, and no part of
its name. The comment at the head of the file describes it, in lines for machines:

    -- @roles reader gateway
        who may run it: `RIGHTS` of roles; `all`: each role; `owner`: nobody but the schema's owner
    -- @standby yes | no
        whether a standby may answer, which is some seconds behind; needed where readers may run it
    -- @gateway manager | submitter | no
        the least kind of token for which a gateway runs it; needed where people may run it. Options
        follow, with commas:
        paged         answers may have fewer rows than asked for; the caller goes on after the last
        quiet         no rows, instead of an error, about campaigns that the token is not for
        whole         about the whole queue: for tokens that are for all of it
        own           without a `path` about all that the token is for, which the statement sees to
        wakes         afterwards there may be tasks for waiting agents
        waits         `?wait_s` has it answered when one of its tasks has ended, see `end_waits`
        up to N       the most rows or tasks that a caller may ask for, if not `MOST`
        within N s    seconds that it may take, if not `MOST_S`
        instead NAME  the statement that runs in its place for tokens below a submitter's
    -- @repeat safe | once
        whether it may be repeated after its answer was lost, since the repetition does and answers
        the same; needed where a gateway offers it, unless it only reads (`@standby yes`)
    -- @act VERBS | no: WHY
        by which words of `model.acts.VERBS` it notes who did it, see note_act(), or why it notes
        nothing; needed where people may run it, unless they may only read
    -- @hint TEXT
        how to ask for less after it took too long at a gateway; optional
    -- @plan WORDS
        which plans the statements of a function may have: words of `PLANS`; optional

A function with `@roles` runs with the owner's rights and a fixed search path, unless it is
immutable: then it reads no table, and PostgreSQL can inline it. A function without is internal: no
role gets it, it is not called by name, and it runs with its caller's rights, search path and,
unless it has a `@plan`, plans. `definition` adds all that to the text of the file.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from typing_extensions import LiteralString

from taskq.db.headers import BadStatement, Header, Offer, head
from taskq.db.sql_files import files_of

#: Roles of logins, each with its rights.
ROLES: Final[dict[str, tuple[str, ...]]] = {
    # Lets agents in by their tokens, serves them, and runs managers' statements by their tokens.
    "gateway": ("serving", "upkeep", "gateway"),
    # An agent next to the database, in any language; it needs no token.
    "agent": ("serving", "upkeep", "agent"),
    # Makes and changes campaigns, gives them inputs, adds tasks: decides what agents execute.
    "submitter": ("reader", "submitter"),
    # Has agents unpickle functions that it sends by value, and their arguments.
    "pickler": ("reader", "submitter", "pickler"),
    # May do what managers' tokens permit, as a gateway does.
    "manager": ("reader", "submitter", "manager"),
    # Reads everything but secrets. Writes only which output it follows.
    "reader": ("reader",),
    # Steers campaigns, tasks, agents, tokens, pilots, the front, the upkeep.
    "operator": ("reader", "upkeep", "operator", "pilots"),
    # Submits pilots' jobs, on a login node.
    "pilots": ("reader", "pilots"),
    # Shows pages, to those who have a manager's token.
    "web": ("reader", "web"),
}
#: Rights of roles: `serving` serves tasks, `upkeep` keeps the queue and the front.
RIGHTS: Final = frozenset(right for rights in ROLES.values() for right in rights)
_CHANGING: Final = frozenset({"manager", "operator", "pickler", "pilots", "submitter"})
_PEOPLE: Final = RIGHTS - {"agent", "gateway", "serving", "upkeep", "web"} | {"all"}
#: Settings for functions, by the words of `@plan`. Statistics lag behind tables that change every
#: second, so hot statements leave the planner no choice; the tests of plans say what each costs.
PLANS: Final = {
    # One plan for all arguments. Planning each call took 0.6 of the time of an exchange.
    "generic": ("plan_cache_mode = force_generic_plan",),
    # A plan for each call, where the arguments decide between a look-up and a scan.
    "custom": ("plan_cache_mode = force_custom_plan",),
    # Row by row through an index, in the order in which the statement names the tables: the cost
    # grows with the rows that are asked for, never with the table.
    "by-key": (
        "enable_seqscan = off",
        "enable_bitmapscan = off",
        "enable_hashjoin = off",
        "enable_mergejoin = off",
        "jit = off",
    ),
    # The same, for statements that look at one table each: less to set at each call.
    "by-one-key": ("enable_seqscan = off", "enable_bitmapscan = off", "jit = off"),
    # Each table once through an index, joined by hashing or merging: for statements about most of a
    # table, for which a nested loop would be quadratic.
    "by-scan": (
        "enable_seqscan = off",
        "enable_bitmapscan = off",
        "enable_nestloop = off",
        "jit = off",
    ),
    # Through the pages that a BRIN index names.
    "by-pages": (
        "enable_seqscan = off",
        "enable_indexscan = off",
        "enable_indexonlyscan = off",
        "jit = off",
    ),
    # The planner's choice. Compiling takes longer than any of these statements.
    "no-jit": ("jit = off",),
}
_IMMUTABLE: Final = re.compile(r"^language \w+ immutable\b", re.MULTILINE)
_RIGHTS: Final = ("security definer", "set search_path = pg_catalog, pg_temp")
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")
_SIGNATURE: Final = re.compile(
    r"^create or replace function taskq\.(\w+)\((.*?)\)\s+(?:returns (.*?)\s+)?language ",
    re.DOTALL | re.MULTILINE,
)
_TABLE: Final = re.compile(r"table \((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and what its header says.

    parameters: with their types; "" where the text has none. rights: `RIGHTS` of roles, or `all`.
    acts: the verbs by which it notes who did it. is_function: whether it is a function of
    `sql/functions`, which logins need a grant for.
    """

    name: str
    text: LiteralString
    parameters: Mapping[str, str]
    rights: frozenset[str]
    is_function: bool
    on_standby: bool = False
    offer: Offer | None = None
    is_repeatable: bool = False
    acts: frozenset[str] = frozenset()

    def is_for(self, role: str) -> bool:
        """Return whether logins of a role may run it."""
        return not self.rights.isdisjoint(("all", *ROLES[role]))


def statement(name: str) -> LiteralString:
    """Return the text of a statement, or for `PACKAGE/NAME` that of a file in a package."""
    return _text(name) if "/" in name else find(name).text


def wakes(name: str) -> bool:
    """Return whether a statement may make tasks claimable, for which agents wait."""
    offer = None if "/" in name else find(name).offer
    return offer is not None and offer.wakes


@cache
def find(name: str) -> Statement:
    """Return a statement; raise `BadStatement` if its header is wrong, or there is none."""
    for folder in ("queries", "functions"):
        file = files_of(folder).get(name)
        text = file.read_text("utf-8") if file else ""
        if file and (folder == "queries" or _is_called(text)):
            return parsed(name, text, is_function=folder == "functions")
    raise BadStatement(f"there is no statement {name!r:.80}")


@cache
def all_statements() -> Mapping[str, Statement]:
    """Return all statements, by name; an upgrade may remove or replace the files later."""
    found = {}
    for folder in ("queries", "functions"):
        for name, file in files_of(folder).items():
            if folder == "queries" or _is_called(file.read_text("utf-8")):
                if name in found:
                    raise BadStatement(f"{name}.sql: sql/queries has that name too")
                found[name] = find(name)
    return found


def granted_functions(roles: Iterable[str]) -> list[str]:
    """Return the functions that logins of some roles may execute, sorted."""
    return sorted(
        known.name
        for known in all_statements().values()
        if known.is_function and any(map(known.is_for, roles))
    )


def array(values: Iterable[int | str]) -> str:
    """Return numbers or ids as the text of an array, for a parameter with a cast.

    This is faster than psycopg's way, which inspects the type of each element.
    """
    return "{" + ",".join(map(str, values)) + "}"


@cache
def _text(name: str) -> LiteralString:
    package, _, base = name.rpartition("/")
    return importlib.resources.files(package).joinpath(f"{base}.sql").read_text("utf-8")


def _is_called(text: str) -> bool:
    """Return whether a function is called by name, from its file."""
    return any(line.startswith("-- @roles") for line in head(text))


def definition(name: str, text: str) -> str:
    """Return the statement that installs a function: its file with the rights and settings.

    Raise `BadStatement` for an error in its header.
    """
    header = Header(f"{name}.sql", text)
    plan = header.words("plan", frozenset(PLANS), needed=False)
    clauses = [f"set {setting}" for word in PLANS if word in plan for setting in PLANS[word]]
    if not _is_called(text):
        header.has_no_more()
    elif not _IMMUTABLE.search(text):
        clauses = [*_RIGHTS, *clauses]
    if not clauses:
        return text
    before, start, body = text.partition("\nas $$\n")
    if not start:
        raise header.wrong("this is not a function with a body that begins with `as $$`")
    return "\n".join((before, *clauses)) + start + body


def parsed(name: str, text: str, *, is_function: bool) -> Statement:
    """Return the statement of a file; raise `BadStatement` for an error in its header."""
    header = Header(f"{name}.sql", text)
    rights = header.words("roles", RIGHTS | {"all", "owner"})
    for_people = not rights.isdisjoint(_PEOPLE)
    on_standby = header.choice(
        "standby", "yes", "no", needed=not rights.isdisjoint({"reader", "all"})
    )
    offer = header.offer(needed=for_people)
    writes = offer is not None and on_standby != "yes"
    repeat = header.choice("repeat", "safe", "once", needed=writes)
    acts = header.acts(needed=on_standby != "yes" and not rights.isdisjoint(_CHANGING))
    if is_function:
        header.words("plan", frozenset(PLANS), needed=False)
    header.has_no_more()
    if is_function:
        call, parameters = _call(name, text, header)
    else:
        call, parameters = text, dict.fromkeys(_PARAMETER.findall(text), "")
    return Statement(
        name,
        call,
        parameters,
        rights - {"owner"},
        is_function,
        on_standby == "yes",
        offer,
        repeat == "safe" or on_standby == "yes",
        acts,
    )


def _call(name: str, text: str, header: Header) -> tuple[LiteralString, dict[str, str]]:
    """Return the call of a function, and its parameters with their types."""
    found = _SIGNATURE.search(text)
    if found is None or found[1] != name:
        raise header.wrong(f"this is not one function {name} with `language` after its result")
    given, columns = {}, []
    for parameter in _listed(found[2]):
        words = parameter.partition(" default ")[0].split(
            " ", 2 if parameter.startswith("out ") else 1
        )
        if words[0] == "out":
            columns.append(words[1])
        elif words[0].startswith("p_"):
            given[words[0].removeprefix("p_")] = words[1]
        else:
            raise header.wrong(f"parameter {words[0]} is neither `out` nor begins with p_")
    table = _TABLE.fullmatch(found[3] or "")
    if table is not None:
        columns = [column.split(" ", 1)[0] for column in _listed(table[1])]
    arguments = ", ".join(f"%({column})s::{kind}" for column, kind in given.items())
    result = f"{', '.join(columns)} from " if columns else ""
    return f"select {result}taskq.{name}({arguments})", given


def _listed(text: str) -> list[str]:
    """Return the items of a list with commas, each on one line with single spaces."""
    return [" ".join(item.split()) for item in re.split(r",(?![^(]*\))", text) if item.strip()]
