"""Events in words, and the messages that consist of them; pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskq.diagnosis.events import DISK, NEWS, TEST, event_named
from taskq.model.words import beginning, command, counted

#: Characters of a sentence; of a text from outside in one; of the subject of a mail.
MAX_TEXT_CHARS: Final = 1_000
_MAX_LINE_CHARS: Final = 300
_MAX_SUBJECT_CHARS: Final = 200
_IDS: Final = uuid.UUID("8f7c6e0c-4d1b-5f0e-9a55-0f6f9a3b1d27")
#: Codes of events that nobody can acknowledge.
_SILENT: Final = {DISK, TEST, *NEWS}
#: Chat services take angle brackets for mark-up and mentions, and the text holds words of nodes.
_HARMLESS: Final = str.maketrans("<>", "()")


def harmless(text: object, chars: int = _MAX_LINE_CHARS) -> str:
    """Return the beginning of a text from outside, as one harmless line."""
    line = " ".join(str(text).split()).translate(_HARMLESS)
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= chars else f"{line[:chars]}..."


def sentence(event: str, figures: Mapping[str, Any]) -> str:
    """Return an event as a sentence: that of `taskq explain`."""
    if event == TEST:
        return (
            f"This is a test, asked for by {harmless(figures.get('login'))}. Nothing has happened."
        )
    return harmless(figures.get("text") or f"{event}.", MAX_TEXT_CHARS)


def message(
    rule: str, path: str, events: Sequence[Mapping[str, Any]], *, host: str
) -> dict[str, Any]:
    """Return the message of some events of a rule, in the form for webhooks and programs.

    id: the same for the same events, however often they are sent. host: the sender's.
    """
    entries = [
        {
            "id": event["event_id"],
            "event": event_named(event["event"]).name,
            "code": event["event"],
            "trouble": event.get("trouble_id"),
            "campaign": path,
            "at": event["noted_at"],
            "text": sentence(event["event"], event["figures"]),
            "commands": [harmless(it) for it in event["figures"].get("commands", ())],
            "figures": event["figures"],
        }
        for event in events
    ]
    ids = sorted(entry["id"] for entry in entries)
    lines = []
    for entry in entries:
        is_clear = entry["code"] in {DISK, TEST} or path in entry["text"]
        said = entry["text"] if is_clear else f"{path}: {entry['text']}"
        known = (
            []
            if entry["code"] in _SILENT
            else [command("troubles", "acknowledge", str(entry["trouble"]))]
        )
        lines += [said, *(f"  $ {words}" for words in [*entry["commands"], *known]), ""]
    subject = lines[0].rstrip(".")
    if entries[0]["code"] == TEST:
        subject = f"a test of the rule {rule}"
    if len(entries) > 1:
        subject = f"{counted(len(entries), 'event')} in {path}"
    if not {entry["code"] for entry in entries} <= {DISK, TEST}:
        lines += ["All that is in the way:", "", f"  $ {command('explain', path)}", ""]
    lines += [f"Sent by taskq's rule {rule}, from {harmless(host)}; this removes the rule:", ""]
    lines += [f"  $ {command('notify', 'rm', rule)}"]
    return {
        "id": str(uuid.uuid5(_IDS, " ".join(ids))),
        "rule": rule,
        "campaign": path,
        "subject": beginning(f"taskq: {subject}", _MAX_SUBJECT_CHARS),
        "text": "\n".join(lines),
        "events": entries,
    }
