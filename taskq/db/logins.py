"""Logins that the server refuses: what that means, and what to do about it.

libpq tells of a connection that was refused in words alone, without the code of the error. So the
words are looked at: PostgreSQL's own, and PgBouncer's. A server that speaks another language than
English is told as one that cannot be reached, with what it has said.
"""

from __future__ import annotations

import re
from typing import Final

_ROLE: Final = r'role ".*" (?:does not exist|is not permitted to log in)'
_ADVICE: Final = {
    re.compile(rf"authentication failed|no password supplied|no such user|{_ROLE}"): (
        "look at the user and the password in the address"
    ),
    re.compile(r"\bpg_hba\.conf\b"): (
        "the server's administrator lets you in, by a line in that file"
    ),
    re.compile(r'database ".*" does not exist|no such database'): (
        "look at its name in the address; the server's administrator makes one"
    ),
    re.compile("permission denied for database"): (
        "its owner lets you in, with `grant connect on database`"
    ),
}


def refusal(told: str) -> str | None:
    """Return why a login was refused and what to do; None if it is something else.

    told: what libpq says of a connection that failed, the first line of it.
    """
    for said, advice in _ADVICE.items():
        if said.search(told):
            return f"{told.rpartition('FATAL:')[2].strip()}; {advice}"
    return None
