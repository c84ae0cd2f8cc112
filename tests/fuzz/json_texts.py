"""Strategies of JSON text, as text: what a decoder or an encoder would make even stays as it is."""

from __future__ import annotations

import json

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds(
        "{}{}{}{}{}".format,
        st.sampled_from(["", "-"]),
        st.sampled_from(["0", "1", "7.25", "1" * 349, "1" * 350, "1" * 351, "0." + "0" * 400]),
        st.sampled_from(["e", "E"]),
        st.sampled_from(["", "+", "-"]),
        st.sampled_from(
            ["0", "9", "99", "350", "351", "0005", "00350", "5000", "131000", "9" * 30]
        ),
    ),
)
#: With what could be taken for numbers, brackets and ends of strings.
STRINGS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(['"', "\\", '\\"', ", 1e5000", "[[[[[[[[[[", "}", "1" * 400, '{"a": 1e999}']),
).map(lambda text: json.dumps(text, ensure_ascii=False))


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(STRINGS, inner).map(": ".join)
    space = st.sampled_from([",", " , "])
    return st.one_of(
        st.builds(lambda by, some: f"[{by.join(some)}]", space, st.lists(inner, max_size=4)),
        st.builds(lambda by, some: f"{{{by.join(some)}}}", space, st.lists(members, max_size=3)),
    )


DOCUMENTS = st.recursive(st.one_of(NUMBERS, STRINGS), _containers, max_leaves=20)

#: Numbers around the limits of types: of 16, 32, 53 and 64 bits, of doubles, of Python and numeric.
EDGES = st.sampled_from(
    [
        *("0", "-0", "-0.0", "1", "-1", "0.5", "1e2", "01", "+1", ".5", "1.", "NaN", "-Infinity"),
        *(
            str(sign * 2**bits + off)
            for bits in (15, 31, 53, 63)
            for sign in (1, -1)
            for off in (-1, 0)
        ),
        *(
            "1.7976931348623157e308",
            "1e309",
            "5e-324",
            "1e-400",
            "1e5000",
            "-1e131000",
            "7" * 5_000,
        ),
        *("0e16000", "0." + "0" * 5_000 + "1", "1e" + "9" * 400),
    ]
)
#: Strings with what databases, terminals and decoders stumble over; some are no Unicode or JSON.
ODD_STRINGS = st.sampled_from(
    [
        *(
            '"\\u0000"',
            '"a\\u0000b"',
            '"\\ud800"',
            '"\\udc00\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\uZZZZ"',
        ),
        *('"\x00"', '"\x01"', '"\x7f"', '"\n"', '"\u2028"', '"\u202e"', '"\ufeff"', '"\\x"', '"'),
        *(
            '"\udcff"',
            '"\udced\udca0\udc80"',
            '"\udcc0\udc80"',
            '"e\u0301"',
            '"\u1e9e"',
            '"\U0010ffff"',
        ),
        *(
            '""',
            '" "',
            '"\'; drop schema taskq; --"',
            '"%s %(path)s"',
            '"{1,2}"',
            '"NULL"',
            '"\\\\N"',
        ),
    ]
)
#: Around limits of names, keys, texts, lines, payloads and results.
LONG_STRINGS = st.builds(
    lambda value, size: f'"{value * size}"',
    st.sampled_from(["x", "\u00e9", "\U0001f9ea", "\\u0041", " "]),
    st.sampled_from([50, 51, 200, 201, 255, 256, 1_001, 2_001, 8_193, 65_537]),
)
DEEP = st.builds(
    lambda pair, deep: pair[0] * deep + pair[1] + pair[2] * deep,
    st.sampled_from([("[", "", "]"), ('{"a":', "1", "}"), ("[", "", ""), ('[{"":', "0", "}]")]),
    st.sampled_from([10, 63, 64, 65, 99, 100, 101, 1_100, 20_000]),
)
WORDS = st.sampled_from(["null", "true", "false", "{}", "[]", "[null]", "undefined", ""])
#: Anything in the place of a value, mostly JSON.
ANYTHING = st.one_of(EDGES, ODD_STRINGS, WORDS, LONG_STRINGS, DEEP, NUMBERS, STRINGS, DOCUMENTS)


def as_bytes(text: str) -> bytes:
    """Return text as it is sent; surrogates from U+DC80 on stand for bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")
