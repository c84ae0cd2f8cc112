"""Where any login of a database can store without limit: temporary tables, large objects, others.

PostgreSQL lets everybody store there. Of a database that only taskq uses, the places are closed as
far as the owner of the schema may; elsewhere others may need them, and an administrator decides.
"""

from __future__ import annotations

from taskq.db.access import Queries
from taskq.db.connections import Statements


def open_places(queries: Queries) -> dict[str, str]:
    """Return the places that are open to every login, with the statement that closes each."""
    return {row["place"]: row["remedy"] for row in queries.rows("open_to_all")}


def close_places(statements: Statements) -> None:
    """Close the places that this login may close, unless others use the database."""
    for row in statements.rows("open_to_all"):
        if row["closable"] and not row["is_shared"]:
            statements.script(row["remedy"])
