"""Connections that libpq's environment does not reach: those to the embedded server.

Variables such as PGHOSTADDR are meant for other servers. A parameter that an address names outdoes
its variable, so these addresses name all that libpq knows. A few variables have no parameter; they
are hidden while libpq reads them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from psycopg import pq

#: Variables that no parameter outdoes: a service that is named must exist; the others have none.
_UNNAMED: Final = ("PGSERVICE", "PGDATESTYLE", "PGTZ", "PGGEQO")

#: What stands for "not given" in parameters without a default of libpq's. It accepts no value that
#: a parameter may not have, so a later parameter must be added here, as a test notices.
_NOT_GIVEN: Final = {
    **dict.fromkeys(("hostaddr", "password", "passfile", "requirepeer", "require_auth"), ""),
    **dict.fromkeys(("sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "gsslib"), ""),
    "ssl_max_protocol_version": "",
    "sslcertmode": "disable",
    "min_protocol_version": "3.0",
    "max_protocol_version": "3.0",
}

_turn = threading.Lock()
_hidden: dict[str, str] = {}
_hiding = 0


def all_parameters() -> dict[str, str]:
    """Return each parameter that has a variable, as if neither were given."""
    known = {
        option.keyword.decode(): option for option in pq.Conninfo.get_defaults() if option.envvar
    }
    usual = {
        name: option.compiled.decode()
        for name, option in known.items()
        if option.compiled is not None
    }
    return usual | {name: its for name, its in _NOT_GIVEN.items() if name in known}


@contextmanager
def without_unnamed() -> Iterator[None]:
    """Hide the variables that no parameter outdoes, from the whole process, for a moment."""
    global _hiding  # noqa: PLW0603  # so is the environment
    with _turn:
        _hiding += 1
        for name in _UNNAMED:
            if name in os.environ:
                _hidden[name] = os.environ.pop(name)
    try:
        yield
    finally:
        with _turn:
            _hiding -= 1
            if not _hiding:
                os.environ.update(_hidden)
                _hidden.clear()
