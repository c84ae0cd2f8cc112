"""Limits of time that a server, a database or a login sets, and what to do about one that is met.

taskq leaves them as they are, since administrators set them on purpose. They say nothing about the
caller, so what they cut short may be repeated.
"""

from __future__ import annotations

from typing import Final

from taskq.model.errors import Unavailable

#: Settings by the code of their error.
_SETTINGS: Final = {
    "57014": "statement_timeout",
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
    "57P05": "idle_session_timeout",
}


def met(sqlstate: str | None, what: str, text: str) -> Unavailable | None:
    """Return the error of a limit that was met; None for any other code.

    what: the server's name in messages. text: its words, in its language.
    """
    setting = _SETTINGS.get(sqlstate or "")
    if setting is None:
        return None
    return Unavailable(
        f"{what} has cut this short: {text}; if the limit {setting} is the reason, raise it for "
        f"the login of taskq, such as by `alter role LOGIN set {setting} = 0`, and connect again"
    )
