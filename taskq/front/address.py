"""Address of the Redis or Valkey server of a front."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from taskq.db.address import check_delimited
from taskq.errors import UsageError

_TLS_OPTIONS: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_HOW: Final = (
    "write redis://HOST:PORT/DB, rediss://... for TLS, unix:///PATH, "
    "and ?cluster=true for a Redis Cluster"
)


@dataclass(frozen=True, slots=True)
class FrontAddress:
    """The address of a Redis or Valkey server.

    url: as redis-py reads it; may hold a password. display_name: names the server in messages;
    holds no password.
    """

    url: str = field(repr=False)
    display_name: str
    cluster: bool = False
    has_password: bool = False

    @classmethod
    def parsed(cls, text: str) -> FrontAddress:
        """Read `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]`, `rediss://...` or `unix://[...@]/PATH`.

        After a `?` there may be `cluster=true`, and for TLS `ssl_ca_certs`, `ssl_certfile` and
        `ssl_keyfile`, which name files. Raise `UsageError`, whose text holds no password.
        """
        check_delimited(text, "/?#")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UsageError(f"not the address of a Redis server; {_HOW}") from None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        cluster = options.pop("cluster", "false")
        if parts.scheme == "unix":
            display_name, fits = f"unix://{parts.path}", len(parts.path) > 1 and cluster == "false"
        else:
            bracketed = f"[{host}]" if host and ":" in host else host
            display_name = f"{parts.scheme}://{bracketed}:{port or 6379}{parts.path.rstrip('/')}"
            fits = (
                parts.scheme in {"redis", "rediss"}
                and bool(host)
                and re.fullmatch(r"/?|/\d{1,5}", parts.path) is not None
            )
        if not fits or cluster not in {"true", "false"}:
            # Without `://` a password looks like a path: then the message repeats nothing.
            known = parts.scheme == "unix" or host
            what = f"{display_name!r:.200} is not" if known and "@" not in text else "this is not"
            raise UsageError(f"{what} the address of a Redis server; {_HOW}")
        unknown = options.keys() - (_TLS_OPTIONS if parts.scheme == "rediss" else set())
        if unknown:
            raise UsageError(
                f"{display_name}: the option {min(unknown)!r:.80} is not known here; {_HOW}"
            )
        url = parts._replace(query=urlencode(options), fragment="").geturl()
        return cls(url, display_name, cluster == "true", parts.password is not None)
