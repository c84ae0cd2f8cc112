"""Requests as a hostile agent or manager with real tokens could make them: strategies.

What a body may hold is read from the types that the gateway decodes it into, and from the catalogue
of statements, so what is new there is sent too. Most of it is right but for a few places.

Nothing here knows of a server. What only it can know, a request names by its kind and a number, as
in `@task.2@`; who sends it puts something known in that place (`Farm.known`). So a request that was
drawn stays the same whatever has been answered before.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from taskq import CampaignSpec
from taskq.db.catalogue import all_statements
from taskq.db.stored_spec import spec_body
from taskq.gateway.app import ENDPOINTS
from taskq.gateway.openapi import BYTES, VALUES, Endpoint
from tests.fuzz.json_texts import ANYTHING, DOCUMENTS, EDGES, ODD_STRINGS, STRINGS, as_bytes
from tests.helpers.campaigns import TRUE

#: Kinds of things that are known; numbers are counted from 0, and begin anew where there are fewer.
REFERENCE: Final = re.compile(rb"@(\w+)\.(\d+)@")
_NUMBERS: Final = st.integers(0, 13)
#: Names of members whose right values are references to such things, all of them in the same place.
_FENCE: Final = ("campaign", "task", "lease")
#: One value in so many is anything, in a request that is not right altogether.
RISK: Final = 40


@dataclass(frozen=True)
class Ask:
    """A request. credential: a kind of token; see `Farm`.

    cut: None: the body is sent as it is; else by gzip, without so many bytes at its end.
    """

    endpoint: Endpoint
    method: str
    path: str
    credential: str
    body: bytes | None = None
    headers: tuple[str, ...] = ()
    cut: int | None = None


def _text(value: object) -> str:
    return json.dumps(value)


def _reference(kind: str) -> st.SearchStrategy[str]:
    return _NUMBERS.map(lambda number: f"@{kind}.{number}@")


def _quoted(kind: str) -> st.SearchStrategy[str]:
    return _reference(kind).map(_text)


def _array(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text of an array of PostgreSQL, as JSON, or a list."""
    some = st.lists(items, max_size=4)
    return st.one_of(
        some.map(lambda many: _text("{" + ",".join(many) + "}")),
        some.map(lambda many: "[" + ",".join(many) + "]"),
    )


_COUNT = st.sampled_from(["0", "1", "2", "100", "1000", "20000", "20001", "-1"])
#: What a text may be: mostly what can be stored.
_TEXTS = st.one_of(*[STRINGS] * 9, ODD_STRINGS)
_PLAIN = st.one_of(st.integers(-5, 5).map(str), st.floats(-1e9, 1e9).map(repr), STRINGS)
_PAYLOAD = st.dictionaries(_TEXTS, st.one_of(*[_PLAIN] * 9, DOCUMENTS), max_size=3).map(
    lambda some: "{" + ",".join(f"{name}: {value}" for name, value in some.items()) + "}"
)
_PART = st.sampled_from(["result", "payload", "attempt", "x"]).map(_text)
_STATUS = ("waiting", "delayed", "working", "done", "failed", "cancelled")
_SETTINGS: Final = ("inputs", *json.loads(spec_body(CampaignSpec("/c"))))


@st.composite
def _spec(draw: st.DrawFn) -> str:
    """Draw what a campaign is, as text in JSON."""
    members = {'"handler"': _text(TRUE.to_json())}
    for name in draw(st.lists(st.sampled_from(_SETTINGS), max_size=3)):
        members[f'"{name}"'] = draw(st.one_of(EDGES, ODD_STRINGS, DOCUMENTS, _PAYLOAD))
    if draw(st.integers(0, 3)) == 0:
        members['"handler"'] = draw(st.one_of(ANYTHING, _PAYLOAD))
    return _text("{" + ", ".join(f"{name}: {value}" for name, value in members.items()) + "}")


@st.composite
def _lines(draw: st.DrawFn) -> str:
    """Draw tasks as `submit` takes them, as text in JSON."""
    some = [
        f'{{"key": {draw(_TEXTS)}, "payload": {draw(_PAYLOAD)}}}'
        for _ in range(draw(st.integers(0, 3)))
    ]
    return _text(f"[{', '.join(some)}]")


@st.composite
def _filter(draw: st.DrawFn) -> str:
    """Draw a filter, as text in JSON."""
    value = draw(st.one_of(EDGES, STRINGS))
    field = draw(st.sampled_from(['["payload", "n"]', '["key"]', '["error"]', '["status"]', "[]"]))
    operator = draw(st.sampled_from(["=", "<", "~", "exists", "like", "in", "and", "not", "eval"]))
    simple = f'["{operator}", {field}, {value}]'
    return _text(
        draw(
            st.sampled_from(
                [simple, f'["not", {simple}]', f'["and", {simple}, {simple}]', '["and"]']
            )
        )
    )


#: Right values by the names of members and parameters, wherever these are.
BY_NAME: Final[dict[str, st.SearchStrategy[str]]] = {
    "campaign": _reference("campaign"),
    "task": _reference("task"),
    "session": _reference("session"),
    "lease": _quoted("lease"),
    "drawn": _quoted("lease"),
    "path": _quoted("path"),
    "scope": _quoted("path"),
    "digest": _quoted("digest"),
    "host": st.sampled_from(["victim", "hostile"]).map(_text),
    # Not long, or all would wait.
    "wait_s": st.sampled_from([*["0", "0.01"] * 5, "-0", "1e-300", "-1", "51", "1e999", '"1"']),
    "key": st.one_of(_TEXTS, _quoted("key")),
    "name": st.one_of(_TEXTS, st.sampled_from(["input", "n"]).map(_text)),
    "result": _PAYLOAD,
    "payload": _PAYLOAD,
    "tasks": _array(_reference("task")),
    "keys": _array(_quoted("key")),
    "priorities": _array(EDGES),
    "limit": _COUNT,
    "most": _COUNT,
    "scan": _COUNT,
    "named": _COUNT,
    "part": _PART,
    "group_part": _PART,
    "spec": _spec(),
    "filter": _filter(),
    "offers": _array(STRINGS),
    "states": _array(st.sampled_from(_STATUS).map(_text)),
    "on_conflict": st.sampled_from(["fail", "skip", "keep-both"]).map(_text),
    "status": st.sampled_from([*_STATUS, "open", "paused", "active"]).map(_text),
}
BY_TYPE: Final[dict[str, st.SearchStrategy[str]]] = {
    "boolean": st.sampled_from(["true", "false", "null"]),
    "text": _TEXTS,
    "uuid": _quoted("lease"),
    "jsonb": DOCUMENTS.map(_text),
    "bigint[]": _array(_reference("task")),
    "text[]": _array(STRINGS),
}
_NUMBER: Final = st.one_of(st.integers(0, 100).map(str), EDGES)


def _scalar(kind: inspect.Type, name: str) -> st.SearchStrategy[str]:
    """Return values of a type that holds no others, or of what may be anything."""
    if isinstance(kind, inspect.NoneType):
        return st.just("null")
    if isinstance(kind, inspect.BoolType):
        return st.sampled_from(["true", "false"])
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values).map(_text)
    if isinstance(kind, inspect.StrType) and (kind.pattern or name == "campaign"):
        return BY_NAME[{"campaign": "path", "digest": "digest"}.get(name, "lease")]
    if name in BY_NAME:
        return BY_NAME[name]
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _within(kind)
    if isinstance(kind, inspect.BytesType):
        return st.binary(max_size=12).map(lambda data: _text(b64encode(data).decode()))
    return _TEXTS if isinstance(kind, inspect.StrType) else _PAYLOAD


def _within(kind: inspect.IntType | inspect.FloatType) -> st.SearchStrategy[str]:
    """Return numbers of a type, the smallest and the largest more often than by chance."""
    if isinstance(kind, inspect.FloatType):
        some = st.floats(kind.ge, kind.le, allow_nan=False, allow_infinity=False).map(repr)
        return st.one_of(some, st.sampled_from(["0", "-0", "1", "5e-324"]))
    least = -(2**63) if kind.ge is None else kind.ge
    most = 2**63 - 1 if kind.le is None else kind.le
    few = st.integers(max(int(least), 0), min(int(most), 5))
    return st.one_of(few, few, st.sampled_from([int(least), int(most)])).map(str)


OFFERED: Final = sorted(name for name, statement in all_statements().items() if statement.offer)


class Drawn:
    """Draws text of values, some of them wrong. risk: one in so many; 0: none."""

    def __init__(self, draw: st.DrawFn, risk: int) -> None:
        self.draw = draw
        self._risk = risk

    def goes_wrong(self) -> bool:
        """Return whether to do something else than is right here."""
        # Not an end of the range: these are drawn more often.
        return self._risk > 0 and self.draw(st.integers(0, self._risk)) == self._risk // 2

    def value(self, kind: inspect.Type, name: str = "") -> str:
        """Return a value of a type."""
        if name == "wait_s":
            return self.draw(BY_NAME[name])
        if self.goes_wrong():
            return self.draw(ANYTHING)
        if isinstance(kind, inspect.UnionType):
            kind = self.draw(st.sampled_from(kind.types))
        if isinstance(kind, inspect.StructType):
            return self.object(kind)
        if isinstance(kind, inspect.VarTupleType | inspect.ListType):
            return self.array(kind.item_type, kind.min_length or 0)
        if isinstance(kind, inspect.TupleType):
            return "[" + ",".join(map(self.value, kind.item_types)) + "]"
        if isinstance(kind, inspect.DictType) and name not in BY_NAME:
            names = [self.draw(_TEXTS) for _ in range(self._few())]
            return self.object_of([(name, self.value(kind.value_type)) for name in names])
        return self.draw(_scalar(kind, name))

    def _few(self, least: int = 0) -> int:
        return self.draw(st.integers(least, 3))

    def array(self, item: inspect.Type, least: int) -> str:
        """Return an array; of many equal items if it goes wrong."""
        items = [self.value(item) for _ in range(self._few(least))]
        if items and self.goes_wrong():
            items *= self.draw(st.sampled_from([2, 60, 101, 1_001]))
        return "[" + ",".join(items) + "]"

    def object(self, kind: inspect.StructType) -> str:
        """Return an object with the members of a type; some of those that it need not have."""
        members = []
        names = {field.encode_name for field in kind.fields}
        fence = self.draw(_NUMBERS)
        for field in kind.fields:
            name = field.encode_name
            if self.goes_wrong() if field.required else self.draw(st.booleans()):
                continue
            if names.issuperset(_FENCE) and name in _FENCE and not self.goes_wrong():
                # Of one attempt, else nothing would ever be accepted.
                known = f"@{name}_of.{fence}@"
                members.append((_text(name), _text(known) if name == "lease" else known))
            else:
                members.append((_text(name), self.value(field.type, name)))
        if members and self.goes_wrong():
            members.append(self.draw(st.sampled_from(members)))
        if self.goes_wrong():
            members.append((self.draw(STRINGS), self.draw(ANYTHING)))
        return self.object_of(self.draw(st.permutations(members)))

    def object_of(self, members: list[tuple[str, str]]) -> str:
        """Return an object with just these members."""
        return "{" + ", ".join(f"{name}: {value}" for name, value in members) + "}"

    def statement(self, name: str = "") -> tuple[str, bytes]:
        """Return the path and body of a manager's statement; of any, if no name is given."""
        name = name or self.draw(st.sampled_from([*OFFERED, "pg_sleep", "keep"]))
        known = all_statements()[name].parameters if name in all_statements() else {}
        rest = "tasks" if "on_conflict" in known else ""
        members, text = [], ""
        for word, kind in known.items():
            if self.goes_wrong():
                value = self.draw(ANYTHING)
            elif word == rest:
                value = self.draw(_lines())
            elif word == "status" or (kind in BY_TYPE and word not in BY_NAME):
                value = self.draw(BY_NAME[word] if word in BY_NAME else BY_TYPE[kind])
            else:
                value = self.draw(BY_NAME.get(word, _NUMBER))
            if word == rest:
                # Without the quotes and escapes of JSON.
                with_quotes = value.startswith('"') and self.draw(st.booleans())
                text = json.loads(value) if with_quotes and _is_json(value) else value
            else:
                members.append((_text(word), value))
        body = as_bytes(self.object_of(members) + (f"\n{text}" if rest else ""))
        return f"{name}?rest={rest}" if rest else name, body


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


#: Whose token a request is sent with, by what the endpoint needs; once in a while any other.
CREDENTIALS: Final = {
    "": ("none",),
    "site": ("site",),
    "session": ("session.0", "session.0", "session.0", "session.1"),
    "manager": ("manager", "submitter", "submitter"),
}
ALL_CREDENTIALS: Final = sorted(
    {name for some in CREDENTIALS.values() for name in some} | {"ended", "made up"}
)
_RANGES: Final = ("0-", "1-3", "5-2", "99999999999-", "0-999999999999", "-5", "a-b", "0-1,3-4")
#: The more often one is here, the more often it is asked: most can go wrong in exchanges.
_WEIGHTS: Final = {"/v1/exchange": 8, "/v1/manage/{query}": 8, "/v1/beat": 4}
_WEIGHTED: Final = [
    endpoint for endpoint in ENDPOINTS for _ in range(_WEIGHTS.get(endpoint.path, 1))
]


@st.composite
def requests(draw: st.DrawFn) -> Ask:
    """Draw a request to any endpoint."""
    endpoint = draw(st.sampled_from(_WEIGHTED))
    drawn = Drawn(draw, draw(st.sampled_from([0, 0, 0, RISK, 6])))
    usual = CREDENTIALS[endpoint.needs]
    credential = draw(st.sampled_from(ALL_CREDENTIALS if drawn.goes_wrong() else usual))
    path, body, cut = endpoint.path, None, None
    headers: tuple[str, ...] = ()
    if endpoint.takes is VALUES:
        name, body = drawn.statement()
        path = path.format(query=name)
        cut = draw(st.sampled_from([None, None, 0, 3 if drawn.goes_wrong() else 0]))
    elif isinstance(endpoint.takes, type):
        body = as_bytes(drawn.value(inspect.type_info(endpoint.takes)))
        if endpoint.optional and draw(st.booleans()):
            body = None
        elif drawn.goes_wrong():
            body = body[: draw(st.integers(0, len(body)))]
    if "{digest}" in path:
        number, other = draw(_NUMBERS), draw(_NUMBERS) if drawn.goes_wrong() else None
        path = path.format(digest=f"@digest.{number}@")
        if endpoint.takes is BYTES:
            body = f"@content.{number if other is None else other}@".encode()
        elif draw(st.booleans()):
            headers = (f"range: bytes={draw(st.sampled_from(_RANGES))}",)
    method = (
        "HEAD" if endpoint.method == "GET" and draw(st.integers(0, 3)) == 0 else endpoint.method
    )
    return Ask(endpoint, method, path, credential, body, headers, cut)


@st.composite
def said(draw: st.DrawFn, name: str) -> Ask:
    """Draw a request for a statement; it is in order, but for its values."""
    (endpoint,) = [endpoint for endpoint in ENDPOINTS if endpoint.takes is VALUES]
    path, body = Drawn(draw, 0).statement(name)
    credential = draw(st.sampled_from(CREDENTIALS[endpoint.needs]))
    path = endpoint.path.format(query=path)
    cut = draw(st.sampled_from([None, 0]))
    return Ask(endpoint, endpoint.method, path, credential, body, (), cut)


#: All statements that a gateway offers, one after the other in any order.
ALL_STATEMENTS: Final = st.permutations(OFFERED).flatmap(
    lambda names: st.tuples(*map(said, names)).map(list)
)
#: Some requests in an order that nobody would choose.
CONVERSATIONS: Final = st.lists(requests(), min_size=1, max_size=8)


def decoded(endpoint: Endpoint, body: bytes) -> Any:
    """Return the body of a good answer, which must be as the document says."""
    if isinstance(endpoint.gives, type):
        return msgspec.json.decode(body, type=endpoint.gives)
    return body
