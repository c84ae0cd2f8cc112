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

from taskq.model.campaign_spec import CampaignSpec
from taskq.model.retry_policy import RetryPolicy
from taskq.model.settings import settings
from tests.helpers.limits_elsewhere import OTHERWISE
from tests.helpers.limits_of_archives import OF_ARCHIVES
from tests.helpers.limits_of_pages import OF_PAGES
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
    ),
    "taskq.model.table_checks": (
        ("MAX_PARAMS_BYTES", "parameters of a campaign", "`InvalidCampaign`"),
        ("MAX_PARAMS_DEPTH", "depth of the parameters of a campaign", "`InvalidCampaign`"),
    ),
    "taskq_agent.batches": (("MAX_BATCH", "tasks of one start of a program", "`InvalidCampaign`"),),
    "taskq.model.handler": (("MAX_HANDLER_BYTES", "handler of a campaign", "`InvalidCampaign`"),),
    "taskq.model.requirements": (("MAX_TAGS", "tags of a campaign", "`UsageError`"),),
    "taskq.model.campaign_checks": (
        ("MAX_DESCRIPTION_CHARS", "description of a campaign", "`InvalidCampaign`"),
        ("MAX_NEVER_RETRY", "classes of errors that are not retried", "`InvalidCampaign`"),
        ("MAX_NAMED_LIMITS", "named limits of a campaign", "`InvalidCampaign`"),
        ("_MOST_KEEP_S", "time for which a campaign stays after its end", "`InvalidCampaign`"),
    ),
    "taskq_agent.named_resources": (
        ("MAX_RESOURCES", "named resources of an agent, or of a campaign", "`InvalidCampaign`"),
        ("MAX_AMOUNT", "amount of a named resource", "`InvalidCampaign`"),
    ),
    "taskq_agent.core.rationing": (
        ("_MOST_KNOWN", "campaigns without room that an agent remembers", "it forgets the first"),
    ),
    "taskq_agent.required": (
        ("MAX_REQUIRED", "values, and files, that each result must have", "`InvalidCampaign`"),
    ),
    **OF_ARCHIVES,
    "taskq.ingest.sources.unpacking": (
        ("MAX_UNPACKING_BYTES", "memory for the window of an xz file", "damage, code 65"),
        ("MAX_NAMED_MEMBERS", "files of a zip file that an error names", "not named"),
    ),
    "taskq.ingest.sources.records": (("MOST_NOTES", "notes on a seed file", "left out"),),
    "taskq.ingest.sources.sweep": (
        ("MAX_COMBINATIONS", "combinations of a sweep", "`UsageError`"),
        ("MAX_PARAMETERS", "parameters of a sweep", "`UsageError`"),
    ),
    "taskq.ingest.key_conflicts": (
        ("MAX_REPORTED_CLASHES", "conflicts of keys that a seeding names", "counted, not named"),
    ),
    "taskq.upkeep.texts": (
        ("MAX_TEXT_CHARS", "sentence of an event", "cut"),
        ("_MAX_LINE_CHARS", "command of an event, or trouble of its delivery", "cut"),
        ("_MAX_SUBJECT_CHARS", "subject of a message", "cut"),
    ),
    "taskq.upkeep.looks": (
        ("_MOST_REASONS", "reasons of a campaign that become events", "left out"),
        ("_MOST_COMMANDS", "commands of an event", "left out"),
    ),
    "taskq.upkeep.channels": (
        ("_MAX_FILE_BYTES", "file of a webhook", "`UsageError`"),
        ("_MOST_NAMED", "webhooks, or programs, in a folder of a keeper", "left out"),
    ),
    "taskq.files.blob_store": (("MAX_INPUT_BYTES", "input of a campaign", "`UsageError`; 413"),),
    "taskq_cli.options.keys": (("MAX_KEYS_BYTES", "file of `--keys`", "`UsageError`"),),
    "taskq.campaign.filter_lexer": (
        ("MAX_CHARS", "filter", "`InvalidFilter`"),
        ("MAX_NUMBER_CHARS", "number in a filter", "`InvalidFilter`"),
        ("MAX_EXPONENT", "exponent of a number in a filter", "`InvalidFilter`"),
    ),
    "taskq.campaign.filter_parser": (
        ("MAX_DEPTH", "depth of a filter", "`InvalidFilter`"),
        ("MAX_COMPARISONS", "comparisons of a filter", "`InvalidFilter`"),
        ("MAX_PIECES", "comparisons with `~` of a filter", "`InvalidFilter`"),
    ),
    "taskq.results.tabular": (
        ("MAX_COLUMNS", "columns of a table of results", "the column `rest`; `UsageError`"),
        ("MAX_NAME_CHARS", "name of a column", "the column `rest`"),
        ("MAX_SAMPLE_BYTES", "results that decide about columns", "the first ones decide"),
    ),
    "taskq.compute.pickling": (
        ("MAX_ARCHIVE_BYTES", "function by value, pickled", "`UsageError`"),
        ("MAX_ARGUMENT_BYTES", "argument of a function, pickled", "`InvalidTask`"),
    ),
    "taskq.compute.outbox": (
        ("MOST_UNSENT", "calls that wait to be stored", "`submit` waits"),
        ("MOST_UNSENT_CHARS", "payloads of calls that wait to be stored", "`submit` waits"),
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
    "taskq_agent.json_limits": (
        ("MAX_DIGITS", "digits of a number in JSON, and its exponent", "no such JSON; 400"),
        ("MAX_READ_BYTES", "JSON that is stored, when read", "that task or result alone fails"),
        (
            "_MOST_READ_DIGITS",
            "digits of a whole number in a result that is read",
            "the attempt has failed; the result counts as lost",
        ),
    ),
    "taskq_agent.protocol": (
        ("MAX_DEPTH", "depth of a result", "the attempt has failed"),
        ("MAX_RESULT_BYTES", "result in a report", "agents upload it as a blob; 400"),
        ("MAX_TAIL_BYTES", "end of an attempt's output", "agents send the end; 400"),
        ("MAX_ERROR_CHARS", "text of an error", "agents cut it; 400"),
        ("MAX_CLAIM", "reports of an exchange, and tasks that it claims", "400"),
        ("MAX_WITHOUT", "campaigns that a claim leaves out", "400"),
        ("LONGEST_WAIT_S", "wait of a long poll", "400"),
        ("MAX_PATH_CHARS", "path of a campaign", "`InvalidPath`; 400"),
        ("MAX_NAME_CHARS", "name of an agent, host, site, tag, phase or error class", "400"),
        ("MAX_RELEASE_CHARS", "release of an agent", "400"),
        ("MAX_SLOTS", "slots of an agent", "400"),
        ("MAX_OFFERS", "tags that an agent offers", "400"),
        ("MAX_PHASES", "phases of a report", "400"),
        ("MAX_HELD", "attempts that a heartbeat names", "400"),
        ("MAX_PENDING", "claims under way in a heartbeat", "400"),
        ("MAX_WARNINGS", "warnings in a heartbeat", "400"),
        ("MAX_CAUSE_CHARS", "cause of a warning in a heartbeat", "agents cut it; 400"),
        ("MAX_TALLY", "campaigns whose outcomes a heartbeat counts", "400"),
        ("MAX_SMALLER_BATCHES", "campaigns with smaller batches in a heartbeat", "left out; 400"),
        ("MAX_STAMP_CHARS", "stamp in a heartbeat", "400"),
    ),
    "taskq_agent.held_claims": (
        ("MAX_HELD_CLAIMS", "claims of batches that a heartbeat names", "400"),
        ("MAX_BEGUN", "begun tasks that a heartbeat names of a claim", "400"),
    ),
    "taskq_agent.slot_shares": (
        ("MAX_SHARES", "slots of which a heartbeat says what they have", "left out; 400"),
        ("MAX_SHARE_DEVICES", "devices of such a slot", "left out; 400"),
        ("MAX_DEVICE_CHARS", "the name of such a device", "cut; 400"),
    ),
    "taskq_agent.transport": (
        ("MAX_BLOB_BYTES", "result, checkpoint or output files as a blob", "413"),
    ),
    "taskq_agent.task_messages": (
        ("MAX_UPDATES", "updates of attempts in a heartbeat", "400"),
        ("MAX_NOTE_CHARS", "note of an update", "400"),
    ),
    "taskq_agent.http.bounded_answers": (
        ("MAX_INTERIM_ANSWERS", "answers before the one that counts", "the request has failed"),
        ("MAX_TRAILERS", "lines after an answer, or of one before it", "the request has failed"),
    ),
    "taskq_agent.http.transport": (
        ("_MAX_ANSWER_BYTES", "answer that an agent reads", "not read to its end"),
        ("_MAX_ERROR_BYTES", "error that an agent reads", "not read to its end"),
    ),
    "taskq_agent.tar": (
        ("MAX_NAME_BYTES", "path in a checkpoint or output files", "not kept; `output-refused`"),
    ),
    "taskq_agent.archive": (
        (
            "MAX_ENTRIES",
            "files and folders of a checkpoint or of output files",
            "not kept; `output-refused`",
        ),
        ("_MAX_DEPTH", "depth of folders in these", "not kept; `output-refused`"),
        ("MOST_NAMES", "names in a folder of these, also hidden", "not kept; `output-refused`"),
    ),
    "taskq_agent.handlers.results": (
        ("_MAX_EXCEPTION_BYTES", "exception that is kept of an attempt", "not kept; its text is"),
    ),
    "taskq_agent.spool": (
        ("MAX_LINE_BYTES", "line of a spool", "the rest of the file is not sent"),
    ),
    "taskq_agent.typed": (
        ("MOST_ALIKE", "elements of a set, or names, that share a hash", "the value is not read"),
    ),
    "taskq_agent.tables": (
        ("MOST_COLUMNS", "columns of a pandas frame as data", "not read; pickled, or not stored"),
    ),
    "taskq_agent.scratch": (
        ("MOST_FOLDERS", "folders of a task that are removed", "the rest stays, with a warning"),
    ),
    "taskq_agent.streams": (
        ("MOST_LINES", "lines of a log that nobody reads", "further ones are lost, and counted"),
    ),
    "taskq_agent.handlers.processes": (
        ("MAX_LINE_BYTES", "line of a payload process", "the attempt has failed"),
    ),
    "taskq_agent.handlers.outcomes": (
        ("MOST_IGNORED_LINES", "lines of a start that are no outcomes", "the start has failed"),
        ("MOST_IGNORED_BYTES", "bytes of these", "the start has failed"),
    ),
    "taskq.gateway.messages": (
        ("MAX_DEPTH", "depth of JSON at a gateway", "400"),
        ("MAX_EXCHANGE_BYTES", "body of an exchange", "413"),
        ("MAX_HELLO_BYTES", "body of a hello", "413"),
        ("MAX_BODY_BYTES", "other bodies", "413"),
    ),
    "taskq.dispatch.heartbeats": (
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
    "taskq.gateway.exchanges": (
        ("MOST_CLAIMS", "exchanges with claims that wait", "503"),
        ("MOST_REPORTS", "exchanges with reports that wait", "503"),
        ("MOST_LARGE", "large exchanges that wait", "503"),
    ),
    "taskq.gateway.service": (("MOST_BEATS", "heartbeats that wait", "503"),),
    "taskq.gateway.http.kept_bytes": (
        (
            "MOST_UNTAKEN_BYTES",
            "answers that clients have not taken",
            "a connection of the token with most ends",
        ),
        (
            "MOST_UNTAKEN_BYTES_OF_TOKEN",
            "the same, for one token; without a token, for one address",
            "blobs wait; no more claims: 503; then a connection ends",
        ),
        ("MOST_ARRIVING_BYTES", "large bodies that are arriving", "503 to the token with most"),
        ("MOST_ARRIVING_BYTES_OF_TOKEN", "the same, for one token", "503"),
        ("MOST_SPOOLED_BYTES", "uploads that are arriving", "503 to the token with most"),
        ("MOST_SPOOLED_BYTES_OF_TOKEN", "the same, for one token", "503"),
        (
            "PATIENCE_S",
            "pause of a client whose token wants more of these than it may have",
            "it goes first",
        ),
    ),
    "taskq.gateway.uploads": (
        ("MOST_UPLOADS", "uploads that are stored at a time", "more wait"),
        ("MOST_INPUTS", "inputs of more than 64 MiB that are stored at a time", "more wait"),
    ),
    "taskq.gateway.statement_pool": (
        ("MOST_WAITING", "statements that wait for a connection", "503"),
    ),
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
    "taskq.gateway.http.request": (
        ("LARGE_BYTES", "body that is decoded at once", "waits for its turn"),
    ),
    "taskq.gateway.large_bodies": (("MOST_BYTES", "larger bodies that wait", "503"),),
    "taskq.gateway.manager_turns": (
        ("MOST_ADMITTED", "managers' requests in a gateway", "503"),
        ("MOST_OF_TOKEN", "managers' requests of one token in a gateway", "503"),
        ("MOST_AT_ONCE", "managers' statements at work", "more wait"),
        ("MOST_AT_ONCE_OF_TOKEN", "managers' statements at work of one token", "more wait"),
        ("MOST_KEPT_BYTES", "answers that managers have not taken yet", "no other begins; 503"),
        ("MOST_KEPT_BYTES_OF_TOKEN", "the same, for one token", "no other begins; 503"),
    ),
    "taskq.gateway.end_waits": (
        ("MOST_WAIT_S", "wait for the end of a task", "it ends"),
        ("MOST_WAITED_TASKS", "tasks of such a wait", "400"),
        ("MOST_WAITS", "waits at a gateway", "503"),
        ("MOST_WAITS_OF_TOKEN", "waits of one token", "503"),
        ("MOST_ASKED", "tasks of waits that one statement asks about", "they take turns"),
    ),
    "taskq.gateway.manager_bodies": (
        ("MAX_BYTES", "body of a manager's statement, before and after gzip", "413"),
        ("MAX_ANSWER_BYTES", "answer to a manager's statement", "413"),
        ("MAX_KEPT_BYTES", "answer to a manager's statement, compressed", "413"),
        ("PAGE_BYTES", "page of tasks or results, without its last row", "the page ends"),
    ),
    "taskq.gateway.manager_queries": (
        ("REFUSED_REST_S", "rest of a token whose large statement is refused", "it ends"),
    ),
    "taskq.db.headers": (
        ("MOST", "rows that a manager's statement asks for, unless its file says otherwise", "400"),
        ("MOST_S", "manager's statement, unless its file says less", "504"),
    ),
    "taskq.gateway.http.framing": (("MAX_HEAD_BYTES", "head of a request", "431"),),
    "taskq.gateway.http.clients": (
        ("IDLE_S", "connection without requests", "the connection ends"),
    ),
    "taskq.gateway.http.connection": (
        ("ARRIVAL_S", "arrival of the head of a request", "408; the connection ends"),
        ("LEAST_BYTES_PER_S", "slowest arrival of a body", "408; the connection ends"),
        ("MOST_AHEAD", "requests that are sent ahead on a connection", "429; the connection ends"),
        ("TAKING_S", "pause in which nothing of an answer is taken", "the connection ends"),
    ),
    "taskq.gateway.http.lingering": (
        ("LINGER_BYTES", "what is read after a refusal", "the connection ends"),
        ("LINGER_S", "time of reading after a refusal", "the connection ends"),
    ),
    "taskq.gateway.http.handshakes": (
        ("MOST_SHAKING", "TLS handshakes under way", "the oldest ends"),
        ("MOST_OF_ADDRESS", "TLS handshakes under way of one address", "its oldest ends"),
        ("HANDSHAKE_S", "TLS handshake", "the connection ends"),
    ),
    **OF_PAGES,
    "taskq.db.tokens": (
        ("MAX_NAME_CHARS", "name of a token", "`UsageError`"),
        ("MAX_SITE_CHARS", "site of a token", "`UsageError`"),
    ),
    "taskq.upkeep.targets": (("MAX_CHARS", "target of a notification rule", "`UsageError`"),),
    "taskq.upkeep.sender": (("MOST", "deliveries of a keeper at a time", "more wait"),),
    "taskq.upkeep.delivery": (
        ("DEADLINE_S", "delivery of a message", "tried again"),
        ("_MAX_OUTPUT_BYTES", "output of a delivery that is shown", "cut"),
    ),
}


def value(module: str, name: str) -> object:
    """Return a constant; raise `AttributeError` or `ImportError` if there is none of that name."""
    found: object = getattr(importlib.import_module(module), name)
    return found


def words(name: str, of: object) -> str:
    """Return the value of a constant as people read it, in the unit that its name ends with."""
    if isinstance(of, tuple):
        return " to ".join(words(name, item) for item in of)
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
        f"| `{setting.key}` of a campaign | {setting.range.removeprefix('at most ')} "
        f"| `InvalidCampaign` | `{kind.__module__}.{kind.__name__}.{setting.name}` |\n"
        for kind in (CampaignSpec, RetryPolicy)
        for setting in settings(kind).values()
        if setting.range
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
