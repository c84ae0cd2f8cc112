"""Hosts without a batch system: this one, or others by ssh.

A shell script does everything on a host. `sh -s` reads it from standard input, so no command line
holds any of it, above all no token. A job is a folder with its name: making the folder succeeds
once, so the job is submitted once. A process is known by its number and start time.
"""

from __future__ import annotations

import base64
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final

from taskq.pilots.agent_file import AGENT_FILE, built
from taskq.pilots.drivers.commands import TIMEOUT_S, BatchSystemError, missing_program, run
from taskq.pilots.drivers.folder import TAIL_BYTES, JobFolder, as_tail, checked_token
from taskq.pilots.reconcile import JobState, SeenJob
from taskq.pilots.script import job_script, shell_of
from taskq.pilots.settings import PilotSettings

#: Seconds without jobs for a host that gave no answer.
_ASIDE_S: Final = 300.0
_HOSTS_AT_ONCE: Final = 16
_ANSWER = re.compile(r"(taskq-[a-z0-9-]+) (queued|running|ended) (\d*)")

_BEGAN = """\
began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
"""
_PREPARE = """\
set -eu
umask 077
mkdir -p {folder}
cd {folder}
if [ ! -O . ] || [ -n "$(find . -prune \\( -perm -020 -o -perm -002 \\))" ]; then
    echo {folder}" is another user's, or others may write in it, who could change its jobs" >&2
    exit 77
fi
probe=.probe-$$
printf %4096s '' > "$probe" || {{ rm -f "$probe"; exit 73; }}
rm -f "$probe"
find . -maxdepth 1 \\( -name 'taskq-*.out' -o -name 'taskq-*.exit' \\) -mtime +30 \\
    -exec rm -f {{}} + || true
find . -maxdepth 1 -name 'taskq-*.job' -mtime +400 -exec rm -rf {{}} + || true
"""
_STORE = """\
base64 -d > .{file}-$$ <<'TASKQ_END'
{content}
TASKQ_END
mv -f .{file}-$$ {file}
"""
_SUBMIT = """\
set -eu
umask 077
cd {folder}
if ! mkdir {name}.job 2>/dev/null; then exit 0; fi
cat > {name}.job/script <<'TASKQ_END_OF_SCRIPT'
echo "$$ $(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)" > {folder}/{name}.job/process
{script}TASKQ_END_OF_SCRIPT
nohup setsid {shell} {name}.job/script > {name}.out 2>&1 < /dev/null &
"""
_JOBS = """\
cd {folder} 2>/dev/null || exit 0
for name in {names}; do
    [ -d "$name.job" ] || continue
    if [ -f "$name.exit" ]; then
        echo "$name ended $(cat "$name.exit")"
    elif read -r process since < "$name.job/process" 2>/dev/null; then
        if [ "$(began "$process")" = "$since" ]; then
            echo "$name running $process"
        else
            echo "$name ended "
        fi
    elif [ -n "$(find "$name.job" -maxdepth 0 -mmin +1)" ]; then
        echo "$name ended "
    else
        echo "$name queued "
    fi
done
"""


class Hosts:
    """This host (if no hosts are named), or several hosts by ssh."""

    def __init__(
        self,
        settings: PilotSettings,
        environment: Mapping[str, str],
        *,
        remote_shell: Sequence[str] = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Set the driver up; ask no host yet.

        remote_shell: the words before the name of a host; a client of ssh. timeout_s: for each
        script on a host.
        """
        self._timeout_s = timeout_s
        self._settings = settings
        self._environment = dict(environment)
        self._remote_shell = list(remote_shell)
        self._hosts: tuple[str | None, ...] = settings.hosts or (None,)
        self.system: Final = ("hosts", settings.hosts, settings.folder)
        self._aside: dict[str, float] = {}
        self._ready: set[str] = set()
        self._local = JobFolder(settings)

    def missing(self) -> str | None:
        """Return what this machine lacks."""
        program = self._remote_shell[0] if self._settings.hosts else "setsid"
        return missing_program(self._environment, program)

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Return the host with the fewest jobs that answers; put silent hosts aside."""
        if self._settings.token_file is not None:
            checked_token(self._settings.token_file)
        if not self._settings.hosts:
            self._local.prepare()
            return None
        words: list[str] = []
        for host in self._by_load(places):
            if (refusal := self._prepare(host)) is None:
                return host
            words.append(refusal)
        raise BatchSystemError(
            "; ".join(words) or "no host is left: those that gave no answer are put aside for 5 min"
        )

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return the script; on other hosts the token is in the job folder."""
        settings = self._settings
        if settings.hosts:
            settings = replace(settings, token_file=f"{settings.folder}/token")
        return job_script(settings, path=path, names=names, program=program)

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Start a job on a host, or here."""
        (name,) = names
        folder = shlex.quote(self._settings.folder)
        self._shell(
            place,
            _SUBMIT.format(folder=folder, name=name, script=script, shell=shell_of(self._settings)),
        )
        return [SeenJob("", "queued", place=place)]

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return the state of each job; raise `PartialAnswer` if a host gives no answer."""
        seen: dict[str, SeenJob] = {}
        script = _BEGAN + _JOBS.format(
            folder=shlex.quote(self._settings.folder), names=" ".join(names) or "''"
        )
        silent: dict[str, str] = {}
        with ThreadPoolExecutor(_HOSTS_AT_ONCE) as pool:
            answers = pool.map(lambda host: self._ask(host, script), self._hosts)
            for host, answer in zip(self._hosts, answers, strict=True):
                if isinstance(answer, BatchSystemError):
                    silent[host or ""] = str(answer)
                else:
                    seen |= answer
        if silent:
            raise PartialAnswer("; ".join(silent.values()), seen, frozenset(silent))
        return seen

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """Do nothing: a job that waits here begins within a moment."""

    def exit_code(self, name: str) -> None:
        """Return None: answers have the exit code."""

    def tail(self, name: str, place: str | None) -> str | None:
        """Return the end of a job's output."""
        if place is None:
            return self._local.tail(name)
        with suppress(BatchSystemError):
            folder = shlex.quote(self._settings.folder)
            text = f"cd {folder} && tail -c {TAIL_BYTES} {name}.out\n"
            return as_tail(self._shell(place, text).encode())
        return None

    def _prepare(self, host: str) -> str | None:
        """Make a host ready for a job; return why that fails, or None."""
        prepare = _PREPARE.format(folder=shlex.quote(self._settings.folder))
        try:
            self._shell(host, prepare if host in self._ready else prepare + self._stored())
        except BatchSystemError as error:
            self._ready.discard(host)
            self._aside[host] = time.monotonic() + _ASIDE_S
            return str(error)
        self._ready.add(host)
        return None

    def _ask(self, host: str | None, script: str) -> dict[str, SeenJob] | BatchSystemError:
        if host is not None and self._aside.get(host, 0.0) > time.monotonic():
            return BatchSystemError(f"{host} gave no answer and is put aside for 5 min")
        try:
            return dict(self._answers(host, self._shell(host, script).splitlines()))
        except BatchSystemError as error:
            if host is not None:
                self._aside[host] = time.monotonic() + _ASIDE_S
            return error

    def _by_load(self, places: Mapping[str, int]) -> list[str]:
        """Return the hosts that may have another job, the hosts with the fewest jobs first."""
        load = Counter(places)
        now = time.monotonic()
        free = [
            host
            for host in self._settings.hosts
            if self._aside.get(host, 0.0) <= now and load[host] < self._settings.jobs_per_host
        ]
        return sorted(free, key=lambda host: load[host])

    def _stored(self) -> str:
        """Return the script that stores the agent and the token on a host."""
        files = {AGENT_FILE: built()}
        if self._settings.token_file is not None:
            files["token"] = checked_token(self._settings.token_file)
        return "".join(
            _STORE.format(file=file, content=base64.encodebytes(data).decode().rstrip("\n"))
            for file, data in files.items()
        )

    def _shell(self, host: str | None, script: str) -> str:
        argv, what = ["sh", "-s"], "this host"
        if host is not None:
            argv, what = [*self._remote_shell, "--", host, "sh -s"], host
        return run(
            argv,
            environment=self._environment,
            text=script,
            what=what,
            timeout_s=self._timeout_s,
        )

    def _answers(self, host: str | None, lines: Iterable[str]) -> Iterable[tuple[str, SeenJob]]:
        for line in lines:
            found = _ANSWER.fullmatch(line)
            if found is None:
                raise BatchSystemError(
                    f"{host or 'sh'} gave an answer that makes no sense: {line[:200]!r}"
                )
            name, state, number = found.groups()
            states: dict[str, JobState] = {"queued": "queued", "running": "running"}
            where = states.get(state, "ended")
            code = int(number) if where == "ended" and number else None
            native_id = number if where == "running" else ""
            yield name, SeenJob(native_id, where, exit_code=code, place=host)


class PartialAnswer(BatchSystemError):
    """Some hosts gave no answer. seen: the answers of the others. silent: the silent hosts."""

    def __init__(self, message: str, seen: dict[str, SeenJob], silent: frozenset[str]) -> None:
        super().__init__(message)
        self.seen = seen
        self.silent = silent
