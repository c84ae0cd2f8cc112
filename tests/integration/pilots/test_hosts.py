"""Jobs on hosts: processes of this machine, or by ssh; both keep the contract of drivers."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from taskq.pilots.agent_file import AGENT_FILE
from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.drivers.hosts import Hosts, PartialAnswer
from taskq.pilots.pilot_file import pilot_settings
from taskq.pilots.reconcile import SeenJob
from tests.helpers.driver_contract import BatchScene, DriverContract
from tests.helpers.waiting import BUSY_S, wait_until

NAME = "taskq-here-0a1b2c3d-1"
OTHER = "taskq-here-0a1b2c3d-2"
SECRET = "tqe_" + "x" * 43
LASTS = "echo up; while :; do sleep 0.1; done\n"

# What stands for ssh: runs the command here, and writes down what a list of processes would show.
REMOTE = """\
#!/bin/sh
echo "$*" >> {folder}/command-lines
while [ "$1" != -- ]; do shift; done
[ "$2" != dead ] || {{ echo "ssh: connect to host dead port 22: No route to host" >&2; exit 255; }}
exec sh -c "$3"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give the folder of jobs; whatever still runs there at the end is killed."""
    folder = tmp_path / "jobs"
    yield folder
    for job in folder.glob("*.job"):
        file = job / "process"
        wait_until(file.exists)
        with suppress(ProcessLookupError, ValueError):
            os.killpg(int(file.read_text().split()[0]), signal.SIGKILL)


def here(folder: Path) -> Hosts:
    """Return the driver of this machine."""
    return Hosts(pilot_settings("local", {"folder": str(folder)}), os.environ)


def elsewhere(folder: Path, hosts: list[str], *, timeout_s: float = 60.0) -> Hosts:
    """Return a driver for hosts that are all this one."""
    folder.parent.joinpath("ssh").write_text(REMOTE.format(folder=folder.parent))
    folder.parent.joinpath("ssh").chmod(0o700)
    token = folder.parent / "token"
    token.touch(mode=0o600)
    token.write_text(SECRET)
    table = {"hosts": hosts, "gateways": ["https://gw"], "token_file": str(token)}
    settings = pilot_settings("ssh", {"folder": str(folder), **table})
    shell = (str(folder.parent / "ssh"),)
    return Hosts(settings, os.environ, remote_shell=shell, timeout_s=timeout_s)


def seen(driver: Hosts, name: str = NAME) -> SeenJob | None:
    """Return what the driver says of a job."""
    return driver.jobs([name]).get(name)


def wait_for(driver: Hosts, state: str, name: str = NAME) -> SeenJob:
    """Wait until a job is so."""

    def is_so() -> bool:
        found = seen(driver, name)
        return found is not None and found.state == state

    wait_until(is_so, on_timeout=lambda: str(seen(driver, name)))
    found = seen(driver, name)
    assert found is not None
    return found


def test_job_is_submitted_once_if_two_ask_at_once(folder: Path) -> None:
    """Its name is a folder, which two cannot make."""
    driver = here(folder)
    driver.prepare({})
    counting = f"echo x >> {folder}/count\n{LASTS}"
    driver.submit([NAME], counting, None)
    wait_for(driver, "running")
    here(folder).submit([NAME], counting, None)
    wait_until((folder / "count").exists)
    assert (folder / "count").read_text() == "x\n"


def test_job_that_was_killed_has_ended(folder: Path) -> None:
    """Also where another process has got its number."""
    driver = here(folder)
    driver.prepare({})
    driver.submit([NAME], LASTS, None)
    running = wait_for(driver, "running")
    os.killpg(int(running.native_id), signal.SIGKILL)
    assert wait_for(driver, "ended").exit_code is None
    (folder / f"{NAME}.job/process").write_text(f"{os.getpid()} 1\n")
    ended = seen(driver)
    assert ended is not None
    assert ended.state == "ended"


def test_job_outlives_the_loop(folder: Path) -> None:
    """It has a session of its own, which no terminal ends."""
    driver = here(folder)
    driver.prepare({})
    driver.submit([NAME], LASTS, None)
    number = int(wait_for(driver, "running").native_id)
    assert os.getsid(number) == number
    assert os.getpgid(number) != os.getpgid(0)


def test_error_names_the_folder_of_jobs_that_cannot_be_written(tmp_path: Path) -> None:
    """A file stands in its place."""
    (tmp_path / "jobs").write_text("a file")
    with pytest.raises(BatchSystemError, match=r"cannot write in .*/jobs: "):
        here(tmp_path / "jobs").prepare({})


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_folder_in_which_others_write_is_refused(folder: Path, mode: int) -> None:
    """Here and on other hosts: who made it first would have his agent run, and read the token."""
    folder.mkdir()
    folder.chmod(mode)
    for driver in (here(folder), elsewhere(folder, ["node1"])):
        with pytest.raises(BatchSystemError, match=r"write in .*jobs|others may write in it"):
            driver.prepare({})
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders that are another's")
def test_folder_of_another_user_is_refused(folder: Path) -> None:
    """Though nobody else may write in it now."""
    folder.mkdir(mode=0o755)
    os.chown(folder, 12_345, 12_345)
    for driver in (here(folder), elsewhere(folder, ["node1"])):
        with pytest.raises(BatchSystemError, match="is another user's"):
            driver.prepare({})
    assert list(folder.iterdir()) == []


def test_files_of_old_jobs_are_removed(folder: Path) -> None:
    """A folder does not grow for ever."""
    folder.mkdir()
    for name in (f"{NAME}.out", f"{NAME}.exit", f"{OTHER}.out", "mine.out"):
        (folder / name).touch()
        if name != f"{OTHER}.out":
            os.utime(folder / name, (1.8e9 - 1e9, 1.8e9 - 1e9))
    here(folder).prepare({})
    assert sorted(file.name for file in folder.iterdir()) == ["mine.out", f"{OTHER}.out"]


def test_other_host_gets_agent_and_token_through_standard_input(folder: Path) -> None:
    """No command line has the token, and nobody else may read its file."""
    driver = elsewhere(folder, ["node1"])
    driver.submit([NAME], LASTS, driver.prepare({}))
    assert wait_for(driver, "running").place == "node1"
    assert (folder / "token").read_text() == SECRET
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert (folder / AGENT_FILE).read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert f"--token-file {folder}/token" in driver.script([NAME], "/c", ["taskq"])
    assert SECRET not in (folder.parent / "command-lines").read_text()
    assert (folder.parent / "command-lines").read_text().splitlines()[0] == "-- node1 sh -s"


def test_jobs_go_where_the_fewest_are(folder: Path) -> None:
    """And no more than allowed to each."""
    driver = elsewhere(folder, ["node1", "node2"])
    assert driver.prepare({"node1": 1}) == "node2"
    with pytest.raises(BatchSystemError, match="no host is left"):
        driver.prepare({"node1": 1, "node2": 1})


def test_dead_host_keeps_no_other_from_its_work(folder: Path) -> None:
    """It is put aside; its jobs are neither ended nor asked about for a while."""
    driver = elsewhere(folder, ["dead", "node1"])
    place = driver.prepare({})
    assert driver.submit([NAME], LASTS, place)[0].place == "node1"
    before = (folder.parent / "command-lines").read_text().count("dead")
    with pytest.raises(PartialAnswer, match="put aside") as partial:
        driver.jobs([NAME])
    assert partial.value.seen[NAME].place == "node1"
    assert partial.value.silent == {"dead"}
    assert (folder.parent / "command-lines").read_text().count("dead") == before == 1


def test_answer_that_makes_no_sense_is_an_error(folder: Path) -> None:
    """Not a job that is gone."""
    driver = elsewhere(folder, ["node1"])
    (folder.parent / "ssh").write_text("#!/bin/sh\necho 'Welcome to node1!'\n")
    with pytest.raises(PartialAnswer, match="node1 gave an answer that makes no sense: 'Welcome"):
        driver.jobs([NAME])


def test_host_that_hangs_is_given_up(folder: Path) -> None:
    """After the time limit of a command."""
    driver = elsewhere(folder, ["node1"], timeout_s=0.3)
    (folder.parent / "ssh").write_text("#!/bin/sh\nexec sleep 60\n")
    begun = time.monotonic()
    with pytest.raises(PartialAnswer, match=r"node1 did not answer within 0\.3 s"):
        driver.jobs([NAME])
    assert time.monotonic() - begun < BUSY_S


# What stands for ssh: another shell, here.
_REMOTE = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nexec sh -c "$3"\n'


def _end(_: str, job: SeenJob) -> None:
    os.killpg(int(job.native_id), signal.SIGTERM)


class TestLocal(DriverContract):
    """What every driver promises, of this machine."""

    @pytest.fixture
    def scene(self, tmp_path: Path) -> BatchScene:
        """Give this machine."""
        return BatchScene("local", tmp_path, _end)


@pytest.mark.thorough
class TestSsh(DriverContract):
    """What every driver promises, of other hosts."""

    @pytest.fixture
    def scene(self, tmp_path: Path) -> BatchScene:
        """Give two hosts that are this one."""
        remote = tmp_path / "bin/remote"
        remote.parent.mkdir()
        remote.write_text(_REMOTE)
        remote.chmod(0o700)
        return BatchScene(
            "ssh",
            tmp_path,
            _end,
            environment={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
            table={"hosts": ["node1"], "jobs_per_host": 2},
            make=lambda settings, environment: Hosts(
                settings,
                environment,
                remote_shell=[remote.name],
            ),
        )
