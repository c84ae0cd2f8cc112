"""Roles: rights of logins that do not own the schema.

A login gets EXECUTE on the functions of its roles and may read what their statements read; it can
write no table. The header of a function names its roles (see `catalogue`); the files of `sql/roles`
grant the reading. Rights hold for one database: PostgreSQL's own roles, which belong to the whole
server, are only the grantees.
"""

from __future__ import annotations

from typing import Final

from taskq.db.catalogue import ROLES, granted_functions
from taskq.db.connections import Database, Statements
from taskq.db.storage_rights import close_places
from taskq.model.errors import Conflict, NotFound, UsageError

#: Parts of roles that read tables: files of `sql/roles`, in the order in which they are granted.
READING: Final = ("serving", "reader", "gateway")
#: Has psql execute the statements that a query selects.
_EXECUTED: Final = " \\gexec"


def grant(database: Database, role: str, login: str) -> bool:
    """Grant a role to a login, in addition to those it has; return whether that is new.

    Members of a group get it if they inherit. Atomic. Grants in the schema that the login got by
    hand are revoked. Raise `NotFound` if the server has no such login, `Conflict` if
    it owns the schema, `ServerUnsuitable` unless the caller owns it.
    """
    return _change(database, "add_login_role", role, login)


def revoke(database: Database, role: str, login: str) -> bool:
    """Revoke a role from a login, which keeps its others; return whether it had the role.

    It takes effect with the login's next statement. Raise as `grant` does.
    """
    return _change(database, "remove_login_role", role, login)


def is_group(database: Database, login: str) -> bool:
    """Return whether a role of the server is a group, which has members but cannot log in."""
    known = database.row("login", login=login)
    return known is not None and known["is_group"]


def granted(database: Database) -> dict[str, list[str]]:
    """Return the roles of each login that has any, sorted by name."""
    return {row["login"]: row["roles"] for row in database.rows("login_roles")}


def as_sql(database: Database) -> list[str]:
    """Return lines for psql that make the roles of this queue on another server.

    They name the owner of the schema, all logins with roles, members of groups, and nobody's
    password.
    """
    return [
        f"{row['statement']}{_EXECUTED if row['is_selected'] else ';'}"
        for row in database.rows("role_statements")
    ]


def grant_anew(statements: Statements) -> None:
    """Renew the grants of each login by its roles, since new functions have no grants."""
    statements.execute("forget_gone_logins")
    for row in statements.rows("login_roles"):
        _apply(statements, row["login"], row["roles"])


def _change(database: Database, how: str, role: str, login: str) -> bool:
    if not login:
        raise UsageError("the name of the login is empty")
    with database.transaction() as statements:
        statements.execute("lock_installation")
        known = statements.row("login", login=login)
        if known is None:
            raise NotFound(
                f"{database.server} has no login {login!r:.80}; its administrator creates one with "
                "`create role ... login`"
            )
        if known["owns"]:
            raise Conflict(f"{login} owns the schema and may do everything")
        statements.execute("forget_gone_logins")
        changed = statements.row(how, login=known["login"], role=role) is not None
        roles = {row["login"]: row["roles"] for row in statements.rows("login_roles")}
        _apply(statements, login, roles.get(login, []))
        close_places(statements)
    return changed


def _apply(statements: Statements, login: str, roles: list[str]) -> None:
    statements.define("take_grants", login=login)
    roles = [role for role in roles if role in ROLES]
    if not roles:
        return
    statements.define("grant_functions", login=login, functions=granted_functions(roles))
    rights = {right for role in roles for right in ROLES[role]}
    for right in READING:
        if right in rights:
            statements.define(f"taskq.sql.roles/{right}", login=login)
