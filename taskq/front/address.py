"""Address of a front: a Redis or Valkey server, or those that name it; and the way there."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from taskq.db.dsn import check_delimited
from taskq.model.errors import UsageError

Kind = Literal["single", "cluster", "sentinel"]

_TLS_OPTIONS: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_MOST_NODES: Final = 32
_HOW: Final = (
    "write redis://HOST:PORT/DB, rediss://... for TLS, unix:///PATH, "
    "redis://HOST:PORT,HOST:PORT?cluster=true for a Redis Cluster, "
    "or redis+sentinel://HOST:PORT,HOST:PORT/NAME"
)
_PORTS: Final = {
    "redis": 6379,
    "rediss": 6379,
    "redis+sentinel": 26379,
    "rediss+sentinel": 26379,
}

#: A slot and a node follow `MOVED`; an empty host means the node that refuses.
_MOVED: Final = re.compile(r"MOVED \d{1,5} (\S{0,255}):(\d{1,5})", re.ASCII)
#: Refusals of a server that takes no writes, or no more.
_ELSEWHERE: Final = {
    "single": (),
    "cluster": ("CLUSTERDOWN", "MASTERDOWN"),
    "sentinel": ("READONLY", "MASTERDOWN"),
}


class RedisNode(NamedTuple):
    """A host and a port; the host of a socket is empty."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class FrontAddress:
    """The address of a Redis or Valkey server, of nodes of a cluster, or of Sentinels.

    nodes: where to begin; any node that answers will do. master: the name under which Sentinels
    know the server. display_name: the address in messages, without a password.
    """

    parts: SplitResult = field(repr=False)
    nodes: tuple[RedisNode, ...]
    display_name: str
    kind: Kind = "single"
    master: str = ""
    has_password: bool = False

    @classmethod
    def parsed(cls, text: str) -> FrontAddress:
        """Read `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]`, `rediss://...` or `unix://[...@]/PATH`.

        After a `?` there may be `cluster=true`, and for TLS `ssl_ca_certs`, `ssl_certfile` and
        `ssl_keyfile`, which name files. With a cluster, and after `redis+sentinel://` or
        `rediss+sentinel://`, there may be several `HOST[:PORT]` with commas between; Sentinels have
        the server's name as a path, `/NAME[/DB]`. Raise `UsageError`, whose text holds no password.
        """
        check_delimited(text, "/?#")
        try:
            parts = _split(text)
            nodes = _nodes(parts)
        except ValueError:
            raise UsageError(f"not the address of a Redis server; {_HOW}") from None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        cluster = options.pop("cluster", "false")
        kind: Kind = "cluster" if cluster == "true" else "single"
        path, master = parts.path, ""
        if parts.scheme.endswith("+sentinel"):
            kind = "sentinel"
            _, _, rest = path.partition("/")
            master, slash, database = rest.partition("/")
            path = slash + database
        place = parts.path if parts.scheme == "unix" else ",".join(map(str, nodes))
        display_name = f"{parts.scheme}://{place}"
        if parts.scheme != "unix":
            display_name += parts.path.rstrip("/")
        if not _fits(parts.scheme, nodes, path, kind, master) or cluster not in {"true", "false"}:
            # Without `://` a password looks like a path: then the message repeats nothing.
            known = parts.scheme == "unix" or nodes
            what = f"{display_name!r:.200} is not" if known and "@" not in text else "this is not"
            raise UsageError(f"{what} the address of a Redis server; {_HOW}")
        unknown = options.keys() - (_TLS_OPTIONS if parts.scheme.startswith("rediss") else set())
        if unknown or (kind == "sentinel" and cluster == "true"):
            raise UsageError(
                f"{display_name}: the option {min(unknown, default='cluster')!r:.80} is not known "
                f"here; {_HOW}"
            )
        server = parts._replace(
            scheme=parts.scheme.removesuffix("+sentinel"),
            path=path,
            query=urlencode(options),
            fragment="",
        )
        return cls(server, nodes, display_name, kind, master, _has_password(parts))

    def url(self, node: RedisNode, *, sentinel: bool = False) -> str:
        """Return the URL of a server as redis-py reads it; it may hold a password.

        sentinel: whether the server is a Sentinel: its URL has no user and no database.
        """
        parts = self.parts
        if sentinel:
            parts = parts._replace(path="", netloc=str(node))
        elif parts.scheme != "unix":
            user, at, _ = parts.netloc.rpartition("@")
            parts = parts._replace(netloc=f"{user}{at}{node}")
        return parts.geturl()


def _split(text: str) -> SplitResult:
    """Split a URL of one or several hosts; `urlsplit` may refuse several with one in brackets."""
    scheme, delimiter, rest = text.partition("://")
    if not delimiter:
        return urlsplit(text)
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}://{rest[len(hosts) :]}")._replace(netloc=hosts)


def _nodes(parts: SplitResult) -> tuple[RedisNode, ...]:
    """Return the hosts of a URL with their ports; raise `ValueError` if one is invalid."""
    if parts.scheme == "unix":
        return (RedisNode("", 0),)
    found = []
    places = parts.netloc.rpartition("@")[2]
    for place in places.split(",") if places else ():
        node = urlsplit(f"//{place}")
        if not node.hostname or re.search(r"[\s%/\\]", node.hostname):
            raise ValueError(place)
        found.append(RedisNode(node.hostname, node.port or _PORTS.get(parts.scheme, 6379)))
    return tuple(dict.fromkeys(found))


def _fits(scheme: str, nodes: tuple[RedisNode, ...], path: str, kind: Kind, master: str) -> bool:
    if scheme == "unix":
        return len(path) > 1 and kind == "single"
    most = 1 if kind == "single" else _MOST_NODES
    return (
        scheme in _PORTS
        and 0 < len(nodes) <= most
        and re.fullmatch(r"/?|/\d{1,5}", path) is not None
        and (kind != "sentinel" or re.fullmatch(r"[\w.-]{1,200}", master, re.ASCII) is not None)
    )


def _has_password(parts: SplitResult) -> bool:
    user, _, _ = parts.netloc.rpartition("@")
    return ":" in user


class RedisRoute:
    """The way to the server that an address, a cluster or Sentinels name.

    All keys of a queue are in one slot of a cluster, so one connection to one node is enough. Any
    other node refuses and names that one; the route remembers it for the next connection.
    """

    def __init__(self, address: FrontAddress) -> None:
        self._address = address
        self._named: RedisNode | None = None

    def nodes(self) -> list[RedisNode]:
        """Return the nodes to try, in order: the node named last, then those of the address.

        The latter are in random order, so that a dead node does not delay every connection.
        """
        nodes = random.sample(self._address.nodes, len(self._address.nodes))
        return nodes if self._named is None else [self._named, *nodes]

    def leads_on(self, refusal: str, node: RedisNode) -> bool:
        """Return whether to connect to another node after a refusal by this one."""
        moved = _MOVED.match(refusal)
        if moved is not None and self._address.kind == "cluster":
            self._named = RedisNode(moved[1].strip("[]") or node.host, int(moved[2]))
            return True
        elsewhere = refusal.startswith(_ELSEWHERE[self._address.kind])
        if elsewhere:
            self._named = None
        return elsewhere

    def lost(self, node: RedisNode) -> None:
        """Note that a node does not answer, so that it is no longer tried first."""
        if node == self._named:
            self._named = None
