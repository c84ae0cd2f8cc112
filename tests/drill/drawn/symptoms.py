"""Symptoms: how a task shows that something is wrong, as pieces of shell that a program runs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

#: What grows while a symptom lasts, or stands still; see `vitals`.
FAILS: Final = "attempts fail or are lost"
ODD: Final = "results are odd"
SLOW: Final = "attempts take long"
STUCK: Final = "tasks do not end"
AWAY: Final = "agents are away"


@dataclass(frozen=True)
class Symptom:
    """A symptom. words: a pattern of its class, as a person would know it again."""

    name: str
    shell: str
    words: str
    shows: str


_ERRORS: Final = (
    "ERROR: atom type {} is not parametrised",
    "Traceback: KeyError: '{}'",
    "could not open map file {}.map",
    "licence server {} does not answer",
    "assertion failed: nonbond < {}",
)


def exits(chance: random.Random, word: str) -> Symptom:
    """Return an exit with a message."""
    code = chance.choice((1, 2, 3, 7, 42))
    text = chance.choice(_ERRORS).format(word)
    return Symptom(f"exit {code}", f'echo "{text}" >&2; exit {code}', rf"exit-{code}\b", FAILS)


SEGFAULT: Final = Symptom("segfault", "kill -SEGV $$", "SIGSEGV|exit-139|Segmentation", FAILS)
OOM: Final = Symptom("killed", "kill -KILL $$", "SIGKILL|exit-137|Killed|memory", FAILS)
NAN: Final = Symptom(
    "NaN", "answer='{\"energy\": NaN}'", "NaN|no number|ranked|JSON|text|bad-result", ODD
)
EMPTY: Final = Symptom("no result", "exit 0", "none|no result|ranked|empty|lack|bad-result", ODD)
COMMA: Final = Symptom(
    "decimal comma", 'answer=\'{"energy": "-7,25"}\'', "text|no number|ranked|bad-result", ODD
)
CUT: Final = Symptom(
    "cut off",
    "answer='{\"energy\": -8.5'",
    "no result|JSON|no number|without|ranked|bad-result",
    ODD,
)
#: As of another release of the program, which writes kJ/mol.
UNITS: Final = Symptom(
    "other units",
    """answer="{\\"energy\\": -$((n % 9 * 4 + 40)).$((n * 7919 % 97))}\"""",
    "far from|results move|below|are others since",
    ODD,
)
SAME: Final = Symptom("all the same", "answer='{\"energy\": 0.0}'", "constant|same|one value", ODD)
CRAWL: Final = Symptom("slow", "seconds=4", "times as long|slow|longer", SLOW)
HANG: Final = Symptom("hangs", "seconds=900", "longer than others|as long", SLOW)
#: As a cache that is never emptied: each task takes longer than the one before.
LEAK: Final = Symptom(
    "ever slower",
    'echo >> "$DRILL_HOME/runs"; seconds=$(($(wc -l < "$DRILL_HOME/runs") / 6)).4',
    "times as long|slow|longer",
    SLOW,
)
ASKED: Final = Symptom("asked to end", "kill -TERM $$", "SIGTERM|exit-143", FAILS)
TOO_MUCH_CPU: Final = Symptom("CPU limit", "kill -XCPU $$", "SIGXCPU|exit-152", FAILS)
BUS: Final = Symptom("binary replaced", "kill -BUS $$", "SIGBUS|exit-135|Bus error", FAILS)
FORKS: Final = Symptom(
    "no processes",
    "echo 'dock: fork: retry: Resource temporarily unavailable' >&2; exit 254",
    "fork|exit-254",
    FAILS,
)
FULL: Final = Symptom("scratch full", "seq 100000 > /dev/full || exit 1", "No space|exit-1", FAILS)
LIBRARY: Final = Symptom(
    "library missing",
    "echo 'dock: error while loading shared libraries: libgomp.so.1: cannot open shared object "
    "file: No such file or directory' >&2; exit 127",
    "libgomp|exit-127",
    FAILS,
)
STALE: Final = Symptom(
    "file server", "echo 'cp: /soft/maps: Stale file handle' >&2; exit 116", "Stale|exit-116", FAILS
)

#: What a program leaves in the end fills its disk.
FILLS: Final = Symptom(
    "core dumps",
    'echo >> "$DRILL_HOME/cores"; if [ "$(wc -l < "$DRILL_HOME/cores")" -gt 12 ]; then '
    "echo 'dock: cannot write map: No space left on device' >&2; exit 74; fi",
    "No space|exit-74",
    FAILS,
)
MOUNT: Final = Symptom(
    "mount comes and goes",
    "if [ $(($(date +%s) / 10 % 3)) = 0 ]; then "
    "echo 'ls: cannot access /soft/maps: Transport endpoint is not connected' >&2; exit 2; fi",
    r"Transport|exit-2\b",
    FAILS,
)
#: It ends well, and its answer says only that it could not do it.
DEMO: Final = Symptom(
    "error in the result",
    """answer='{"error": "no licence, demo mode"}'""",
    "without that field|ranked|bad-result",
    ODD,
)
#: A server of licences for two at a time, wherever they run.
LICENCES: Final = Symptom(
    "two licences",
    'got=; for one in 1 2; do [ -n "$got" ] || '
    '{ mkdir "$DRILL_HOME/../licence$one" 2> /dev/null && got=$one; }; done; '
    "if [ -z \"$got\" ]; then echo 'no licence left for GRID (-4,132)' >&2; exit 15; fi; "
    """trap "rmdir '$DRILL_HOME/../licence$got'" EXIT""",
    r"licence left|exit-15\b",
    FAILS,
)
