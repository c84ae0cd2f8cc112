"""The limits of what comes from outside: one list, and the table of them in docs/threat-model.md.

`python -m tests.helpers.limits_page` writes the table, with the values as the constants have them.
A new limit is a constant where it is used, named `MAX_...` or `MOST_...` with its unit at the end
(`_BYTES`, `_CHARS`, `_S`), and a row here. The settings of
a campaign say their ranges themselves.
"""

from __future__ import annotations

import importlib
import re
from typing import Final

from taskq.model.campaign_spec import CampaignSpec, RetryPolicy
from taskq.model.settings import settings
from tests.helpers.paths import ROOT

PAGE: Final = ROOT / "docs/threat-model.md"
BEGIN: Final = "<!-- The table of limits is written by `make schema`. -->\n"
END: Final = "<!-- End of the table of limits. -->\n"
HEAD: Final = "| What is bounded | At most | Beyond it | Name |\n|---|---|---|---|\n"

#: Of each module its constants, each with what it bounds and what happens beyond it.
LIMITS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "taskq.model.seed": (
        ("MAX_KEY_CHARS", "key of a task", "`InvalidTask`; 400"),
        ("MAX_PAYLOAD_BYTES", "payload of a task; row over several lines", "`InvalidTask`; 400"),
        ("MAX_PAYLOAD_DEPTH", "depth of a payload", "`InvalidTask`; 400"),
        ("MAX_PATH_CHARS", "path of a campaign", "`InvalidPath`; 400"),
    ),
    "taskq.model.settings": (
        ("MAX_PARAMS_BYTES", "parameters of a campaign", "`InvalidCampaign`"),
        ("MAX_PARAMS_DEPTH", "depth of the parameters of a campaign", "`InvalidCampaign`"),
    ),
    "taskq.model.handler": (("MAX_HANDLER_BYTES", "handler of a campaign", "`InvalidCampaign`"),),
    "taskq.model.requirements": (("MAX_TAGS", "tags of a campaign", "`UsageError`"),),
    "taskq.model.campaign_spec": (
        ("MAX_DESCRIPTION_CHARS", "description of a campaign", "`InvalidCampaign`"),
        ("MAX_NEVER_RETRY", "classes of errors that are not retried", "`InvalidCampaign`"),
    ),
    "taskq.ingest.campaign_file": (("MAX_FILE_BYTES", "campaign file", "`UsageError`"),),
    "taskq.ingest.sources.lines": (("MAX_LINE_BYTES", "line of a seed file", "a bad line"),),
    "taskq.ingest.sources.sweep": (
        ("MAX_COMBINATIONS", "combinations of a sweep", "`UsageError`"),
        ("MAX_PARAMETERS", "parameters of a sweep", "`UsageError`"),
    ),
    "taskq.ingest.key_conflicts": (
        ("MAX_REPORTED_CLASHES", "conflicts of keys that a seeding names", "counted, not named"),
    ),
    "taskq.files.blob_store": (("MAX_INPUT_BYTES", "input of a campaign", "`UsageError`; 413"),),
    "taskq.campaign.filter_parser": (
        ("MAX_CHARS", "filter", "`InvalidFilter`"),
        ("MAX_NUMBER_CHARS", "number in a filter", "`InvalidFilter`"),
        ("MAX_EXPONENT", "exponent of a number in a filter", "`InvalidFilter`"),
        ("MAX_DEPTH", "depth of a filter", "`InvalidFilter`"),
        ("MAX_COMPARISONS", "comparisons of a filter", "`InvalidFilter`"),
        ("MAX_PIECES", "comparisons with `~` of a filter", "`InvalidFilter`"),
    ),
    "taskq.compute.pickling": (
        ("MAX_ARCHIVE_BYTES", "function by value, pickled", "`UsageError`"),
        ("MAX_ARGUMENT_BYTES", "argument of a function, pickled", "`InvalidTask`"),
    ),
    "taskq.compute.outbox": (
        ("MOST_UNSENT", "calls that wait to be stored", "`submit` waits"),
        ("MOST_UNSENT_CHARS", "payloads of calls that wait to be stored", "`submit` waits"),
    ),
    "taskq.compute.pickle_steps": (
        ("MOST_STEPS", "steps of a result's pickles", "`TooExtensive`"),
    ),
    "taskq.files.blobs": (
        ("MAX_SHORT_BYTES", "blob that PostgreSQL takes with one statement", "parts of 1 MiB"),
    ),
    "taskq_agent.buffers": (
        (
            "MOST_PARTS",
            "buffers in the blob of a large result",
            "the writer uses Base64; no result",
        ),
    ),
    "taskq.compute.data_objects": (
        ("MOST_ITEMS", "items of a result, each shared part counted again", "`TooExtensive`"),
        ("MOST_DEPTH", "depth of a result of a function", "`TooExtensive`"),
    ),
    "taskq_agent.text": (
        ("MAX_DIGITS", "digits of a number in JSON, and its exponent", "no such JSON; 400"),
        ("MAX_READ_BYTES", "JSON that is stored, when read", "that task or result alone fails"),
    ),
    "taskq_agent.protocol": (
        ("MAX_DEPTH", "depth of a result", "the attempt has failed"),
        ("MAX_RESULT_BYTES", "result in a report", "agents upload it as a blob; 400"),
        ("MAX_TAIL_BYTES", "end of an attempt's output", "agents send the end; 400"),
        ("MAX_ERROR_CHARS", "text of an error", "agents cut it; 400"),
        ("MAX_CLAIM", "reports of an exchange, and tasks that it claims", "400"),
        ("MAX_WITHOUT", "campaigns that a claim leaves out", "400"),
    ),
    "taskq_agent.transport": (
        ("MAX_BLOB_BYTES", "result, checkpoint or output files as a blob", "413"),
    ),
    "taskq_agent.task_messages": (
        ("MAX_UPDATES", "updates of attempts in a heartbeat", "400"),
        ("MAX_NOTE_CHARS", "note of an update", "400"),
    ),
    "taskq_agent.http.transport": (
        ("_MAX_ANSWER_BYTES", "answer that an agent reads", "not read to its end"),
        ("_MAX_ERROR_BYTES", "error that an agent reads", "not read to its end"),
    ),
    "taskq_agent.archive": (
        (
            "MAX_ENTRIES",
            "files and folders of a checkpoint or of output files",
            "not kept; `output-refused`",
        ),
        ("_MAX_DEPTH", "depth of folders in these", "not kept; `output-refused`"),
    ),
    "taskq_agent.handlers.results": (
        ("_MAX_EXCEPTION_BYTES", "exception that is kept of an attempt", "not kept; its text is"),
    ),
    "taskq_agent.handlers.processes": (
        ("MAX_LINE_BYTES", "line of a payload process", "the attempt has failed"),
    ),
    "taskq.gateway.messages": (
        ("MAX_DEPTH", "depth of JSON at a gateway", "400"),
        ("MAX_EXCHANGE_BYTES", "body of an exchange", "413"),
        ("MAX_HELLO_BYTES", "body of a hello", "413"),
        ("MAX_BODY_BYTES", "other bodies", "413"),
        ("LONGEST_WAIT_S", "wait of a long poll", "400"),
        ("MAX_NAME_CHARS", "name of an agent, host, site, tag, phase or error class", "400"),
        ("MAX_RELEASE_CHARS", "release of an agent", "400"),
        ("MAX_SLOTS", "slots of an agent", "400"),
        ("MAX_OFFERS", "tags that an agent offers", "400"),
        ("MAX_PHASES", "phases of a report", "400"),
        ("MAX_PENDING", "claims under way in a heartbeat", "400"),
        ("MAX_WARNINGS", "warnings in a heartbeat, of which the known ones are kept", "400"),
        ("MAX_TALLY", "campaigns whose outcomes a heartbeat counts", "400"),
    ),
    "taskq.dispatch.heartbeats": (
        ("MOST_NAMED", "attempts that a heartbeat names", "400"),
        ("LARGE_NAMED", "attempts that a heartbeat names in a shared statement", "runs apart"),
    ),
    "taskq.dispatch.fair_queue": (
        ("LARGE_TASKS", "reports and tasks of an exchange in a shared statement", "runs apart"),
        ("LARGE_CAMPAIGNS", "campaigns of an exchange in a shared statement", "runs apart"),
        ("LARGE_CHARS", "reports of an exchange in a shared statement", "runs apart"),
        ("MOST_KINDS", "kinds of agents that share a statement", "wait for the next"),
        ("MOST_TASKS", "reports, and tasks claimed, that share a statement", "wait for the next"),
        ("MOST_CHARS", "reports that share a statement", "wait for the next"),
    ),
    "taskq.gateway.service": (
        ("MOST_CLAIMS", "exchanges with claims that wait", "503"),
        ("MOST_BEATS", "heartbeats that wait", "503"),
        ("MOST_REPORTS", "exchanges with reports that wait", "503"),
        ("MOST_LARGE", "large exchanges that wait", "503"),
        ("MOST_UPLOADS", "large uploads of agents at a time", "503"),
    ),
    "taskq.gateway.pace": (("MOST_WAITING", "statements that wait for a connection", "503"),),
    "taskq.gateway.auth": (
        ("ASKED_AT_ONCE", "requests of a token for blobs and managers' verbs at once", "more wait"),
        ("ASKED_PER_S", "such requests of a token in the long run", "more wait"),
        ("ASKED_WAIT_S", "wait of such a request", "503"),
        ("_MOST_WAITING", "requests that wait for a look-up of their token", "503"),
    ),
    "taskq.gateway.enrolments": (
        ("OPENED_AT_ONCE", "sessions that a token opens at a gateway at once", "503"),
        ("OPENED_PER_S", "sessions that a token opens at a gateway in the long run", "503"),
    ),
    "taskq.gateway.requests": (
        ("LARGE_BYTES", "body that is decoded at once", "waits for its turn"),
        ("MOST_BYTES", "larger bodies that wait", "503"),
    ),
    "taskq.gateway.manager_turns": (
        ("MOST_ADMITTED", "managers' requests in a gateway", "503"),
        ("MOST_OF_TOKEN", "managers' requests of one token in a gateway", "503"),
        ("MOST_AT_ONCE", "managers' statements at work", "more wait"),
        ("MOST_AT_ONCE_OF_TOKEN", "managers' statements at work of one token", "more wait"),
        ("MOST_KEPT_BYTES", "answers that managers have not taken yet", "no other begins; 503"),
        ("MOST_KEPT_BYTES_OF_TOKEN", "the same, for one token", "no other begins; 503"),
    ),
    "taskq.gateway.manager_queries": (
        ("MAX_BYTES", "body of a manager's statement, before and after gzip", "413"),
        ("MAX_ANSWER_BYTES", "answer to a manager's statement", "413"),
        ("MAX_KEPT_BYTES", "answer to a manager's statement, compressed", "413"),
        ("PAGE_BYTES", "page of tasks or results, without its last row", "the page ends"),
        ("MOST_UPLOADS", "inputs that are uploaded at a time", "503"),
        ("REFUSED_REST_S", "rest of a token whose large statement is refused", "it ends"),
    ),
    "taskq.db.catalogue": (
        ("MOST", "rows that a manager's statement asks for, unless its file says otherwise", "400"),
        ("MOST_S", "manager's statement, unless its file says less", "504"),
    ),
    "taskq.gateway.connection": (
        ("MAX_HEAD_BYTES", "head of a request", "431"),
        ("ARRIVAL_S", "arrival of the head of a request", "408; the connection ends"),
        ("LEAST_BYTES_PER_S", "slowest arrival of a body", "408; the connection ends"),
        ("MOST_AHEAD", "requests that are sent ahead on a connection", "429; the connection ends"),
        ("TAKING_S", "pause in which nothing of an answer is taken", "the connection ends"),
        ("IDLE_S", "connection without requests", "the connection ends"),
    ),
    "taskq.gateway.handshakes": (
        ("LINGER_BYTES", "what is read after a refusal", "the connection ends"),
        ("LINGER_S", "time of reading after a refusal", "the connection ends"),
        ("MOST_SHAKING", "TLS handshakes under way", "the oldest ends"),
        ("MOST_OF_ADDRESS", "TLS handshakes under way of one address", "its oldest ends"),
        ("HANDSHAKE_S", "TLS handshake", "the connection ends"),
    ),
    "taskq.gateway.pages_process": (
        ("MOST", "requests to pages at a gateway at a time", "503"),
        ("MAX_FORM_BYTES", "form of a page", "413"),
    ),
    "taskq.db.tokens": (
        ("MAX_NAME_CHARS", "name of a token", "`UsageError`"),
        ("MAX_SITE_CHARS", "site of a token", "`UsageError`"),
    ),
    "taskq.upkeep.channels": (("MAX_CHARS", "target of a notification rule", "`UsageError`"),),
    "taskq.upkeep.sender": (("MOST", "deliveries of a keeper at a time", "more wait"),),
    "taskq.upkeep.delivery": (("DEADLINE_S", "delivery of a message", "tried again"),),
}
#: Of a file, the place of the value, the end that its name would have, and the same two.
OTHERWISE: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    (
        "sql/functions/take.sql",
        r"(\d+) / greatest\(",
        "_BYTES",
        "payloads of a claim",
        "fewer tasks",
    ),
    (
        "sql/functions/add_argument.sql",
        r"between 0 and (\d+) then",
        "_BYTES",
        "argument of a function as a blob",
        "`InvalidTask`; TQ400",
    ),
    ("sql/functions/add_input.sql", r" >= (\d+) then", "", "inputs of a campaign", "TQ400"),
    ("sql/functions/filter_path.sql", r"filter\) > (\d+)", "_BYTES", "compiled filter", "TQ400"),
    ("sql/functions/set_quota.sql", r"v_most .* := (\d+)", "", "quotas", "TQ409"),
    ("sql/functions/set_quota.sql", r"1 to (\d+) char", "_CHARS", "name of an owner", "TQ400"),
    (
        "sql/functions/create_notify_rule.sql",
        r"v_most .* := (\d+)",
        "",
        "notification rules",
        "TQ409",
    ),
    (
        "sql/functions/note_events.sql",
        r"v_waiting .* := (\d+)",
        "",
        "events of a rule that wait",
        "later",
    ),
    (
        "sql/functions/take_messages.sql",
        r" limit (\d{2,})",
        "",
        "events of a message",
        "the next one",
    ),
    ("sql/functions/end_message.sql", r"v_tries .* := (\d+)", "", "tries of a message", "given up"),
    (
        "taskq/front/scripts/pop.lua",
        r"MAX_ENTRY.* = (\d+),",
        "_BYTES",
        "entry in Redis",
        "not taken",
    ),
)


def value(module: str, name: str) -> object:
    """Return a constant; raise `AttributeError` or `ImportError` if there is none of that name."""
    found: object = getattr(importlib.import_module(module), name)
    return found


def words(name: str, of: object) -> str:
    """Return the value of a constant as people read it, in the unit that its name ends with."""
    if isinstance(of, tuple):
        return " to ".join(words(name, one) for one in of)
    assert isinstance(of, int | float), name
    if "_BYTES" in name:
        power = max(n for n in range(6) if of >= 1 << 10 * n and of % (1 << 10 * n) == 0)
        text = f"{int(of) >> 10 * power:,} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power]}"
    elif re.search("SECONDS$|(?<!_PER)_S$", name):
        text = f"{of / 86_400:g} days" if of >= 86_400 else f"{of:g} s"
    else:
        text = f"{of:,g}" if isinstance(of, float) else f"{of:,}"
        text += " characters" if "_CHARS" in name else ""
    return text + (" a second" if name.endswith("_PER_S") else "")


def table() -> str:
    """Return the table of all limits."""
    lines = [
        f"| {what} | {words(name, value(module, name))} | {beyond} | `{module}.{name}` |\n"
        for module, rows in LIMITS.items()
        for name, what, beyond in rows
    ]
    lines += [
        f"| `{one.key}` of a campaign | {one.range.removeprefix('at most ')} | `InvalidCampaign` "
        f"| `{kind.__module__}.{kind.__name__}.{one.name}` |\n"
        for kind in (CampaignSpec, RetryPolicy)
        for one in settings(kind).values()
        if one.range
    ]
    for path, place, unit, what, beyond in OTHERWISE:
        found = re.search(place, (ROOT / path).read_text(encoding="utf-8"))
        assert found is not None, f"{path} has no longer {place}"
        lines.append(f"| {what} | {words(unit, int(found[1]))} | {beyond} | `{path}` |\n")
    return HEAD + "".join(lines)


def page() -> str:
    """Return the page as it should be."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert (begin, end) == (BEGIN, END), f"the table of limits in {PAGE.name} has lost its marks"
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
