"""Messages between agent and queue: plain values, the same in process and over HTTP.

One exchange is one round trip: it reports ended attempts and claims new tasks. A heartbeat, sent
from a thread of its own, keeps the session alive and names what the agent holds. Every request is
idempotent and may be repeated unchanged: a session is identified by a key that the agent draws, a
claim by its lease id, a report by (task, lease id).

A member is declared here once: agents, gateways and the document of the protocol take its type, its
limits and its default from here; see `wire`. A gateway refuses what is beyond a limit.

Messages are immutable by convention. A gateway makes thousands of some of them per second; those
are not frozen, since making a frozen one takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Mapping, Optional, Tuple

from taskq_agent.campaign_news import CampaignBan, CampaignOutcomes
from taskq_agent.held_claims import MAX_HELD_CLAIMS, HeldClaim, LeftOfClaim
from taskq_agent.ids import Count, ExitCode, Id, LeaseId, MaybeLease, Revision
from taskq_agent.slot_shares import MAX_SHARES, SlotShare
from taskq_agent.wire import Between, Free, Most, Words

PROTOCOL = 3  # before it, agents do not report the recipe that they ran
#: Header of all answers of gateways. What lacks it comes from something else.
ANSWER_HEADER = "Taskq-Answer"

DONE = "done"
FAILED = "failed"
RELEASED = "released"
OUTCOMES = (DONE, FAILED, RELEASED)

#: Class of a release because the agent had no time left: the queue counts these.
OUT_OF_TIME = "out-of-time"
#: Class of a release because the handler has said that another attempt goes on; also counted.
CONTINUED = "continued"
#: Class of the failure into which the queue turns a release when there are too many of these.
TOO_LONG = "too-long"
#: Class of a failure because the attempt has taken more memory than its campaign allows.
OUT_OF_MEMORY = "out-of-memory"
TIME_LIMIT = "time-limit"
#: Class of a failure because the output files are larger than what the campaign keeps.
OUTPUT_TOO_LARGE = "output-too-large"
#: Class of a failure because the result lacks what the campaign says that it must have.
RESULT_INCOMPLETE = "result-incomplete"

ACCEPTED = "accepted"
DUPLICATE = "duplicate"
SUPERSEDED = "superseded"
UNKNOWN = "unknown"

CONTINUE = "continue"
STOP = "stop"

RESULT_REFERENCE = "taskq_blob"  # the only name in a reference to a result that is stored as a blob
#: Nesting of objects and arrays in a result.
MAX_DEPTH = 100
MAX_RESULT_BYTES = 262_144
MAX_TAIL_BYTES = 8_192
MAX_ERROR_CHARS = 2_000
MAX_CLAIM = 1_000
MAX_WITHOUT = 16
LONGEST_WAIT_S = 50.0
MAX_NAME_CHARS = 200
MAX_PATH_CHARS = 1_000
MAX_RELEASE_CHARS = 50
MAX_SLOTS = 100_000
MAX_OFFERS = 100
MAX_PHASES = 50
MAX_PENDING = 100
MAX_TALLY = 64
MAX_SMALLER_BATCHES = 16
MAX_WARNINGS = 16
MAX_STAMP_CHARS = 64
MAX_CAUSE_CHARS = 400
#: Attempts that one heartbeat may name. An agent has a few for each of its slots.
MAX_HELD = 10_000

Name = Annotated[str, Words(MAX_NAME_CHARS)]
Text = Annotated[str, Words(MAX_ERROR_CHARS)]


@dataclass(frozen=True)
class Hello:
    """Request of an agent for a session; `key` makes the call repeatable.

    offers: tags, `NAME` or `NAME=VALUE`, for campaigns that require some. unfit: why the agent will
    not work there: it gets no session, and people read that.
    """

    key: LeaseId
    campaign: Annotated[str, Most(MAX_PATH_CHARS, least=1)]
    name: Name = ""
    host: Name = ""
    pid: Count = 0
    site: Name = ""
    slots: Annotated[int, range(1, MAX_SLOTS + 1)] = 1
    release: Annotated[str, Most(MAX_RELEASE_CHARS)] = ""
    offers: Annotated[Tuple[Name, ...], Most(MAX_OFFERS)] = ()
    unfit: Text = ""


@dataclass(frozen=True)
class Welcome:
    """The opened session, and its intervals.

    The session expires `lease_s` seconds after the last heartbeat that arrived. token: the
    session's credential for a gateway; a secret. now: the queue's clock, in seconds since 1970; 0
    means unknown. banned: what the agent leaves out.
    """

    session: int
    heartbeat_s: float
    lease_s: float
    token: str = field(default="", repr=False)
    now: float = 0.0
    banned: Tuple[CampaignBan, ...] = ()


@dataclass(frozen=True)
class Input:
    """A file that all tasks of a campaign share. digest: its SHA-256, in hex; size: in bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class CampaignTerms:
    """Properties that the tasks of one campaign share. A change raises `revision`.

    inputs: shared files by name. on_disconnect: what an agent does with running tasks once its
    session must have expired unheard: `continue` (the fence decides) or `stop`. checkpoint_bytes:
    largest checkpoint of a task; None if none is kept. checkpoint_every_s: seconds between uploads.
    cores, gpus: what a task needs, below 1 a share of a GPU; None means what a slot has. memory:
    bytes that it may occupy at first, then each time that it has run out of memory; empty: any.
    memory_learnt: whether these are what others used: then no task gets more than the agent has.
    output_bytes: largest output files of a task; None if none are kept. require, require_files:
    what each result must have, see `required`. gpu_memory: bytes that a task needs of each of its
    GPUs. named_resources: what a start needs of a node's. recipe: of the campaign; None: the first.
    """

    campaign: Id
    revision: Id
    path: str
    handler: Mapping[str, Any]
    params: Mapping[str, Any]
    time_limit_s: Optional[float]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    on_disconnect: str = CONTINUE
    checkpoint_bytes: Optional[int] = None
    checkpoint_every_s: float = 600.0
    cores: Optional[int] = None
    memory: Tuple[int, ...] = ()
    gpus: Optional[float] = None
    output_bytes: Optional[int] = None
    require: Tuple[str, ...] = ()
    require_files: Tuple[str, ...] = ()
    memory_learnt: bool = False
    gpu_memory: Optional[int] = None
    named_resources: Mapping[str, int] = field(default_factory=dict)
    recipe: Optional[Count] = None


@dataclass
class Task:
    """One attempt to execute; (task, lease) is its fence."""

    campaign: Id
    revision: Id
    task: Id
    key: str
    attempt: int
    lease: LeaseId
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Held:
    """The fence of an attempt that the agent holds."""

    campaign: Id
    task: Id
    lease: LeaseId


@dataclass
class Report:
    """The end of an attempt.

    outcome: `done`, `failed` or `released` (handed back: counts neither as failure nor as loss).
    retry: for `failed`: whether a further attempt may help.
    started: for `released`: whether the handler had begun.
    refused: for `released`: the campaign cannot run where this agent is; `error` says why.
    phases: seconds spent by phase, such as `run_s`. recipe: see `CampaignTerms`, by which it ran.
    """

    campaign: Id
    task: Id
    lease: LeaseId
    outcome: Annotated[str, OUTCOMES]
    result: Optional[Annotated[Mapping[str, Any], Free(MAX_RESULT_BYTES, MAX_DEPTH)]] = None
    retry: bool = True
    started: bool = True
    error_class: Optional[Name] = None
    error: Optional[Text] = None
    exit_code: Optional[ExitCode] = None
    tail: Optional[Annotated[str, Most(MAX_TAIL_BYTES)]] = None
    phases: Annotated[Mapping[Name, float], Most(MAX_PHASES)] = field(default_factory=dict)
    refused: bool = False
    recipe: Optional[Count] = None


@dataclass
class Ack:
    """The verdict on a report: accepted, duplicate, superseded or unknown. All are final."""

    campaign: Id
    task: Id
    lease: LeaseId
    verdict: str


@dataclass
class Request:
    """One exchange: report ended attempts, claim up to `want` tasks under the id `lease`.

    lifetime_s: seconds that this agent will still live; tasks with a longer time limit are not
    given. None means no limit.
    wait_s: long poll: for how many seconds the answer may be delayed while there is nothing to
    claim, for a session that holds nothing else. A gateway supports that, and counts it as a
    heartbeat with nothing held; a database does not.
    until_empty: do not delay the answer if nothing is left unfinished.
    ahead: whether tasks leased ahead may be given, under leases of their own; and, if the database
    is away, tasks without verdicts on the reports, which the agent sends again later.
    without: campaigns, as (campaign, revision), to claim nothing in for as long as they have this
    revision: the agent cannot run them.
    """

    session: Id
    reports: Annotated[Tuple[Report, ...], Most(MAX_CLAIM)] = ()
    want: Annotated[int, range(MAX_CLAIM + 1)] = 0
    lease: MaybeLease = ""
    lifetime_s: Optional[Annotated[float, Between(-1e9, 1e9)]] = None
    wait_s: Annotated[float, Between(0, LONGEST_WAIT_S)] = 0.0
    until_empty: bool = False
    ahead: bool = False
    without: Annotated[Tuple[Revision, ...], Most(MAX_WITHOUT)] = ()


@dataclass(frozen=True)
class Orders:
    """Orders of the queue to an agent, sent with an answer.

    drain: claim no more, and shut down when the held tasks have ended. elsewhere: this gateway is
    shutting down, use another. gateways: the addresses of all gateways; empty means unchanged.
    claim_after_s: claim no more for so many seconds. why: the reason to drain, for people; may be
    empty.
    """

    drain: bool = False
    elsewhere: bool = False
    gateways: Tuple[str, ...] = ()
    claim_after_s: Optional[float] = None
    why: str = ""


NO_ORDERS = Orders()


@dataclass(frozen=True)
class Unservable:
    """Unfinished tasks that the agent cannot get at present, with the reasons for people."""

    tasks: int
    reasons: Tuple[str, ...] = ()


@dataclass
class Answer:
    """The answer to an exchange: a verdict per report, in order, and the claimed tasks.

    campaigns: one entry for each campaign that `tasks` mentions.
    unfinished: when nothing was claimed, the number of tasks still waiting, delayed or working in
    what the agent serves; at zero it can shut down. unservable: those that it will not get.
    timeline: of the server that gave the verdicts; it changes when another server takes over, which
    may lack the last things that the former server had acknowledged. 0 means unknown. Comparisons
    of answers ignore it.
    """

    acks: Tuple[Ack, ...] = ()
    tasks: Tuple[Task, ...] = ()
    campaigns: Tuple[CampaignTerms, ...] = ()
    unfinished: Optional[int] = None
    orders: Orders = NO_ORDERS
    timeline: Id = field(default=0, compare=False)
    unservable: Optional[Unservable] = None

    @property
    def left(self) -> Optional[int]:
        """The unfinished tasks that the agent may get one day."""
        if self.unfinished is None or self.unservable is None:
            return self.unfinished
        return self.unfinished - self.unservable.tasks


@dataclass(frozen=True)
class Trouble:
    """What is wrong with an agent: it makes one attempt at a time, or has warnings, or both.

    failures: how many in a row have failed fast, so that it makes one attempt at a time. On a
    suspected host (see `HeartbeatAnswer`) the number may be any, and the failures may have been
    slow. error_class: of the last failure. try_in_s: seconds until the next attempt. warnings:
    see `warning_words`; the queue ignores others. cause: of the last three, what came instead.
    """

    failures: Count = 0
    error_class: Name = ""
    try_in_s: Annotated[float, Between(0, 1e6)] = 0.0
    warnings: Annotated[Tuple[Name, ...], Most(MAX_WARNINGS)] = ()
    cause: Annotated[str, Words(MAX_CAUSE_CHARS)] = ""


@dataclass(frozen=True)
class SmallerBatch:
    """How many tasks of a campaign begin together: fewer than its handler allows.

    error_class: of the starts that have failed although none of their tasks failed alone.
    """

    campaign: Id
    size: Count
    error_class: Name = ""


@dataclass
class Heartbeat:
    """Message that the session lives and holds exactly these attempts.

    claims: attempts at tasks that begin together, by their claims; `held` names all others.
    pending: lease ids of claims that wait for their answer. drawn: the newest lease id drawn when
    this heartbeat was composed. An attempt of the session goes to another agent if its lease is not
    younger than this one and neither `held`, `claims` nor `pending` names it. A heartbeat says
    nothing about younger leases: their claims may have overtaken it on the way. timeline: of the
    server that answered the agent last; 0 if none. A server of another timeline gives nothing to
    other agents: it may not know which attempts the agent has finished. trouble: for the agents'
    operators; None if all is well. tally: outcomes from which the queue learns whether more fails
    on this host than on others; empty means unchanged. batches: those that are smaller than usual.
    shares: what slots have of their node. stamp: the latest that the queue has given.
    """

    session: Id
    held: Annotated[Tuple[Held, ...], Most(MAX_HELD)] = ()
    pending: Annotated[Tuple[LeaseId, ...], Most(MAX_PENDING)] = ()
    drawn: MaybeLease = ""
    timeline: Id = 0
    trouble: Optional[Trouble] = None
    tally: Annotated[Tuple[CampaignOutcomes, ...], Most(MAX_TALLY)] = ()
    batches: Annotated[Tuple[SmallerBatch, ...], Most(MAX_SMALLER_BATCHES)] = ()
    shares: Annotated[Tuple[SlotShare, ...], Most(MAX_SHARES)] = ()
    claims: Annotated[Tuple[HeldClaim, ...], Most(MAX_HELD_CLAIMS)] = ()
    stamp: Annotated[str, Most(MAX_STAMP_CHARS)] = ""


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Attempts whose lease is no longer valid: the agent stops them. timeline: as for `Answer`.

    suspect: why this host is suspected to be bad, so that one attempt is made at a time; empty if
    it is not. left: of claims of which the session has fewer tasks than the agent holds. banned:
    what the agent leaves out from now on. stamp: how far the queue's database has come, which the
    agent shows with its next heartbeat: so it learns if it was set back.
    """

    stop: Tuple[Held, ...] = ()
    orders: Orders = NO_ORDERS
    timeline: Id = field(default=0, compare=False)
    suspect: str = ""
    left: Tuple[LeftOfClaim, ...] = ()
    banned: Tuple[CampaignBan, ...] = ()
    stamp: str = field(default="", compare=False)


@dataclass(frozen=True)
class SessionEnd:
    """End of an agent: the reason and the exit code of its process, for people.

    attempts: how many ran there, whatever their outcome; None: it does not say, as for exit_code.
    """

    reason: Text = ""
    exit_code: Optional[ExitCode] = None
    attempts: Optional[Count] = None


SILENT_END = SessionEnd()
