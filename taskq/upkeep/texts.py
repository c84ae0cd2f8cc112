"""Events in words, and the messages that consist of them; pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskq.model.seed import FINAL
from taskq.model.words import command, counted

TROUBLE: Final = "trouble"
GB: Final = 10**9
_MAX_SAID: Final = 300
_IDS: Final = uuid.UUID("8f7c6e0c-4d1b-5f0e-9a55-0f6f9a3b1d27")
#: Chat services take angle brackets for mark-up and mentions, and the text holds words of nodes.
_HARMLESS: Final = str.maketrans("<>", "()")


def harmless(text: object) -> str:
    """Return the beginning of a text from outside, as one harmless line."""
    line = " ".join(str(text).split()).translate(_HARMLESS)
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= _MAX_SAID else f"{line[:_MAX_SAID]}..."


def sentence(event: str, subject: str, figures: Mapping[str, Any]) -> str:
    """Return an event as a sentence."""
    try:
        return _sentence(event, subject, figures)
    except (KeyError, TypeError, ValueError):  # of another release
        return f"{subject}: {harmless(event)}."


def _sentence(event: str, subject: str, figures: Mapping[str, Any]) -> str:
    if event == "finished":
        done, failed, cancelled = (figures[name] for name in FINAL)
        return f"{subject} has finished: {done:,} done, {failed:,} failed, {cancelled:,} cancelled."
    if event == "paused":
        if figures["why"] is None:
            return f"{subject} was paused by an operator."
        return f"{subject} has paused itself: {harmless(figures['why'])}."
    if event == "no-agents":
        number, campaigns, first = (figures[name] for name in ("waiting", "campaigns", "first"))
        where = first if campaigns == 1 else f"{counted(campaigns, 'campaign')}, such as {first}"
        wait, them = "waits" if number == 1 else "wait", "it" if campaigns == 1 else "them"
        return f"{counted(number, 'task')} {wait} in {where}, and no agent at work serves {them}."
    if event == "failing":
        failures, attempts = figures["failures"], figures["attempts"]
        return f"{failures:,} of the latest {attempts:,} first attempts in {subject} failed."
    if event == "slow":
        ended, usual = counted(figures["ended"], "task"), figures["usual"]
        return f"{subject} has become slow: {ended} ended in 15 minutes, {usual:,} were usual."
    if event == TROUBLE:
        return harmless(figures["text"])
    if event == "disk":
        free, size = figures["free"] / GB, figures["size"] / GB
        disk = harmless(subject)
        return f"The disk of {disk} is nearly full: {free:,.1f} of {size:,.0f} GB are free."
    if event == "test":
        return f"This is a test, asked for by {harmless(figures['login'])}. Nothing has happened."
    raise ValueError(event)


def commands(event: str, subject: str, figures: Mapping[str, Any]) -> list[str]:
    """Return the commands to type next."""
    if event == "finished":
        failures = [command("failures", subject)] if figures.get("failed") else []
        return [command("status", subject), *failures]
    if event == "paused":
        return [command("explain", subject), command("campaign", "resume", subject)]
    if event == "no-agents":
        return [command("explain", subject), command("agent", "list", subject)]
    if event == "failing":
        return [command("failures", subject), command("campaign", "pause", subject)]
    if event == "slow":
        return [command("explain", subject), command("site", "list", subject)]
    return [harmless(one) for one in figures.get("commands", ())]


def message(
    rule: str, path: str, events: Sequence[Mapping[str, Any]], *, host: str
) -> dict[str, Any]:
    """Return the message of some events of a rule, in the form for webhooks and programs.

    id: the same for the same events, however often they are sent. host: the sender's.
    """
    entries = [
        {
            "id": one["event_id"],
            "event": one["event"],
            "campaign": path if one["event"] in {"disk", TROUBLE} else one["subject"],
            "at": one["noted_at"],
            "text": sentence(one["event"], one["subject"], one["figures"]),
            "commands": commands(one["event"], one["subject"], one["figures"]),
            "figures": one["figures"],
        }
        for one in events
    ]
    ids = sorted(one["id"] for one in entries)
    if len(entries) == 1:
        subject = entries[0]["text"].partition(": ")[0].rstrip(".")
        subject = f"a test of the rule {rule}" if entries[0]["event"] == "test" else subject
    else:
        subject = f"{counted(len(entries), 'event')} in {path}"
    lines = []
    for one in entries:
        lines += [one["text"], *(f"  $ {words}" for words in one["commands"]), ""]
    lines += [f"Sent by taskq's rule {rule}, from {harmless(host)}; this removes the rule:", ""]
    lines += [f"  $ {command('notify', 'rm', rule)}"]
    return {
        "id": str(uuid.uuid5(_IDS, " ".join(ids))),
        "rule": rule,
        "campaign": path,
        "subject": f"taskq: {subject}"[:200],
        "text": "\n".join(lines),
        "events": entries,
    }
