"""One run: a farm at work, a nemesis, and what has become of all tasks."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from taskq.db.audit import audit
from taskq.embedded import Server
from taskq.model.errors import TaskqError
from tests.chaos import funnel
from tests.chaos.checker import Verdict, check
from tests.chaos.clients import (
    Counting,
    Hedger,
    Inspector,
    Manager,
    Operator,
    Reader,
    Seeder,
    Warden,
)
from tests.chaos.eyes import Eyes
from tests.chaos.farm import CAMPAIGN, LIMIT, MOST, Farm, Ground, farm
from tests.chaos.history import read
from tests.chaos.nemesis import Nemesis
from tests.chaos.plan import plan
from tests.helpers.waiting import wait_until

FAULT_EVERY_S = 0.5
_SETTLED_S = 60.0
_SLOW_S = 25.0
_LONGEST_S = 180.0
_PAUSE_S = 0.2
_TERM_S = 2.0
#: What a run has to show to count as one: else the machine was too slow, or the test is broken.
_LEAST_TASKS = 100
_LEAST_FAULTS = 3
#: Among so many tasks some crash the program that runs them.
_DIVIDED_TASKS = 2_000
#: Which of eight farms has a named limit.
_LIMITED = 5


@dataclass
class Trial:
    """What a run has shown.

    hedged: attempts next to which a second one was let. starts: the most that were seen to count
    towards the limit at a time. jobs: of a pilot. kept: where history and logs are, if something is
    wrong.
    """

    seed: int
    verdict: Verdict = field(default_factory=Verdict)
    counted: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    hedged: int = 0
    starts: int = 0
    jobs: int = 0
    settled_s: float = 0.0
    took_s: float = 0.0
    kept: Path | None = None

    @property
    def faults(self) -> int:
        """How many faults count."""
        return self.counted.total()


def run_trial(server: Server, seed: int, seconds: float) -> Trial:
    """Strike a new farm for so long, let it come to rest, and check what it has done.

    A farm whose seed is even salvages late results, and its tasks are hedged. In every fourth farm
    a start gets many tasks, some of which crash it. In every fourth one of the others the campaign
    names a limit that is smaller than its agents' slots.
    """
    trial = Trial(seed)
    batches, limited = seed % 4 == 3, seed % 8 == _LIMITED
    with kept_if_wrong(trial) as folder:
        kind = {"salvages": seed % 2 == 0, "batches": batches, "limited": limited}
        with farm(server, folder, **kind) as at_work:
            _strike(at_work, trial, seconds)
        if trial.verdict.tasks < _LEAST_TASKS or trial.faults < _LEAST_FAULTS:
            trial.wrong.append(f"only {trial.verdict.tasks} tasks and {trial.faults} faults")
        if batches and trial.verdict.tasks >= _DIVIDED_TASKS and not trial.verdict.again:
            trial.wrong.append("no start of many tasks was divided")
        if limited and trial.starts != MOST:
            trial.wrong.append(f"{trial.starts} starts counted at a time, where {MOST} may")
        if (trial.hedged > 0) != (seed % 2 == 0):
            trial.wrong.append(f"{trial.hedged} attempts were hedged")
    return trial


@contextmanager
def kept_if_wrong(trial: Trial) -> Iterator[Path]:
    """Give a folder for a run; it stays if something is wrong, and says what."""
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="taskq-chaos-"))
    try:
        yield folder
    except BaseException:
        trial.wrong.append("it was broken off")
        trial.kept = folder
        raise
    finally:
        trial.took_s = time.monotonic() - begun
        if trial.wrong:
            trial.kept = folder
            (folder / "wrong").write_text("\n".join(trial.wrong) + "\n")
        else:
            shutil.rmtree(folder)


def _strike(at_work: Farm, trial: Trial, seconds: float) -> None:
    eyes = Eyes(at_work.dsn("eyes"))
    stop = threading.Event()
    seeder = Seeder(at_work, trial.seed, stop)
    operator = Operator(at_work, trial.seed, seeder, stop)
    manager = Manager(at_work, trial.seed, seeder, stop)
    warden = Warden(at_work, trial.seed, stop)
    hedger = Hedger(at_work, stop)
    reader = Reader(at_work, stop)
    inspector = Inspector(at_work, trial.seed, reader, stop)
    counter = Counting(at_work, stop)
    clients = (seeder, operator, manager, warden, hedger, reader, inspector, counter)
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    try:
        wait_until(
            lambda: manager.changed and manager.swept and inspector.withdrawn,
            timeout_s=_SETTLED_S,
        )
        nemesis = Nemesis(at_work, eyes)
        faults = plan(trial.seed, seconds, round(seconds / FAULT_EVERY_S))
        nemesis.run(faults, seconds)
        trial.counted, trial.others = nemesis.counted, nemesis.others
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        trial.hedged, trial.starts = hedger.hedged, counter.most
    try:
        with suppress(TaskqError):  # the server may be coming up
            audited(at_work, trial, "at work")
        at_rest(at_work, eyes, trial)
        reader.look(at_work.campaign)
        _examine(at_work, eyes, trial)
    finally:
        eyes.close()


def at_rest(at_work: Ground, eyes: Eyes, trial: Trial, slow_s: float = _SLOW_S) -> None:
    """Wait until all tasks are final, none counts towards a limit, and banned agents are leaving.

    Tasks must become final all the time: on a busy machine they take long, but none stays for
    slow_s. A further keeper stands by: whichever was killed last, its term ends within ten seconds.
    """
    begun = moved = time.monotonic()
    holder, left, stood = str(uuid.uuid4()), -1, 0.0
    while time.monotonic() < min(moved + max(_SETTLED_S, 2 * slow_s), begun + _LONGEST_S):
        for part in at_work.parts:
            part.look_after()
        try:
            at_work.database.rows("keep", holder=holder, term_s=_TERM_S)
            now = at_work.campaign.status().unfinished
            if now != left:
                left, moved = now, time.monotonic()
            stood = max(stood, time.monotonic() - moved)
            if now == 0 and not (eyes.unaware() or eyes.starts(LIMIT)):
                break
        except TaskqError:
            pass  # the server is coming up
        time.sleep(_PAUSE_S)
    trial.settled_s = time.monotonic() - begun
    if stood > slow_s or left:
        trial.wrong.append(f"slow: {left} tasks left, and none ended for {stood:.0f} s")


def audited(at_work: Ground, trial: Trial, when: str) -> None:
    """Check the promises as `taskq audit` does, which also recounts what is counted."""
    for violation in audit(at_work.database, CAMPAIGN):
        trial.wrong.append(
            f"audit {when}: {violation.check}: task {violation.task_id}: {violation.text}"
        )


def look_at_end(at_work: Ground, eyes: Eyes, trial: Trial) -> None:
    """Compare what clients have seen with what PostgreSQL has, and write that down too."""
    history = read(at_work.history)
    history.tasks, history.attempts = eyes.end(CAMPAIGN)
    with (at_work.history / "end.json").open("w") as end:
        json.dump([dataclasses.asdict(value) for value in (*history.tasks, *history.attempts)], end)
    trial.verdict = check(history)
    trial.wrong += [
        f"{anomaly.kind}: {anomaly.key}: {anomaly.text}" for anomaly in trial.verdict.anomalies
    ]


def _examine(at_work: Farm, eyes: Eyes, trial: Trial) -> None:
    look_at_end(at_work, eyes, trial)
    trial.wrong += [f"{name} did not learn that it is banned" for name in eyes.unaware()]
    if not (trial.verdict.sweeps and trial.verdict.bans):
        trial.wrong.append("no set of tasks was moved, or nobody was banned")
    for feeder in at_work.feeders:
        feeder.kill()
    trial.wrong += funnel.differences(at_work.client, CAMPAIGN)
    audited(at_work, trial, "at rest")
    if left := eyes.starts(LIMIT):
        trial.wrong.append(f"{left} starts count towards a limit that nobody holds any more")
    for part in at_work.parts:
        trial.wrong += [f"{part.name} has ended by itself with {code}" for code in part.astray]
