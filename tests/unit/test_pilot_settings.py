"""Settings of pilots are checked, and what becomes of them in a job script is quoted."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from taskq.model.errors import NotFound, UsageError
from taskq.pilots.drivers import DRIVERS_BY_NAME
from taskq.pilots.pilot_file import check_name, pilot_settings, read_pilot_file
from taskq.pilots.script import job_script
from taskq.pilots.settings import DRIVERS, PilotSettings

HOSTILE = "a b'c\"d$(touch /x)`id`;#\\n*"
NAME = "taskq-hpc-0a1b2c3d-7"


GATEWAY = {"gateways": ["https://gw"], "token_file": "/t"}


def slurm(**table: Any) -> PilotSettings:
    """Return the settings of a pilot on Slurm."""
    return pilot_settings("slurm", {"folder": "/jobs", **table})


def script(driver: str, settings: PilotSettings) -> str:
    """Return the script of a job."""
    return DRIVERS_BY_NAME[driver](settings, {}).script([NAME], "/demo", ["/opt/a b/taskq"])


def agent_of(text: str) -> list[str]:
    """Return the words of the agent's command as a shell reads them."""
    command = text.partition(" XCPU ALRM\n")[2].partition(" &\nagent=$!")[0]
    return shlex.split(command.replace("\\\n", " "))


def test_each_driver_is_there() -> None:
    """Those that can be named are those that a loop has."""
    assert {*DRIVERS} == {*DRIVERS_BY_NAME}


def test_times_have_units() -> None:
    """As on the command line."""
    settings = slurm(time_limit="12h", idle_timeout="90s", least_work=60)
    assert (settings.time_limit, settings.idle_timeout, settings.least_work) == (43_200, 90, 60)


@pytest.mark.parametrize(
    ("driver", "table", "words"),
    [
        ("slurm", {"partition": "a b"}, "partition"),
        ("slurm", {"partition": "x\n#SBATCH --uid=0"}, "partition"),
        ("slurm", {"options": ['--comment=a" b']}, "without quotes"),
        ("slurm", {"options": ["--nodes=8"]}, "is set by taskq itself"),
        ("htcondor", {**GATEWAY, "nodes": 8}, "nodes goes with the driver slurm, not with htcon"),
        ("slurm", {"options": ["--comment=a\n#SBATCH --uid=0"]}, "one line without control"),
        ("slurm", {"options": ["-p", "x"]}, "must read --name=value"),
        ("slurm", {"options": ["--output=/x"]}, "set by taskq itself"),
        ("slurm", {"folder": "/a b"}, "folder"),
        ("slurm", {"folder": "relative"}, "folder"),
        ("slurm", {"folder": "/%j"}, "folder"),
        ("slurm", {"cores": 0}, "cores"),
        ("slurm", {"cores": True}, "cores"),
        ("slurm", {"time_limit": "soon"}, "time_limit"),
        ("slurm", {"time_limit": "1s"}, "from 60 to 31,536,000"),
        ("slurm", {"gateways": ["https://gw"]}, "token_file"),
        ("slurm", {"gateways": ["ftp://gw"], "token_file": "/t"}, "ftp"),
        ("slurm", {"token_file": "/t"}, "give one"),
        ("slurm", {"hosts": ["a"]}, "goes with the driver ssh"),
        ("slurm", {"offers": ["a b"]}, "offers"),
        ("slurm", {"slip": 1}, "slip"),
        ("slurm", {"agent_options": ["a\0b"]}, "4,096 characters"),
        ("slurm", {"agent_options": ["a" * 5_000]}, "4,096 characters"),
        ("slurm", {"agent_options": ["a"] * 1_001}, "1,000 at most"),
        ("slurm", {"agent_options": {"a": 1}}, "must be a list of texts"),
        ("slurm", {"python": "a\nb"}, "one line without control"),
        ("slurm", {"site": "a\x1b[2J"}, "one line without control"),
        ("slurm", {"setup": "a" * 20_001}, "20,000 characters"),
        ("local", {"partition": "main"}, "goes with the driver slurm"),
        ("ssh", {"gateways": ["https://gw"], "token_file": "/t"}, "needs hosts"),
        ("ssh", {"hosts": ["-oProxyCommand=id"]}, "must be names of hosts"),
        ("ssh", {"hosts": ["a"]}, "through a gateway"),
        ("pbs", {}, "through a gateway"),
        ("pbs", {**GATEWAY, "options": ["--hold"]}, "an option of qsub"),
        ("pbs", {**GATEWAY, "options": ["-P a b"]}, "an option of qsub"),
        ("pbs", {**GATEWAY, "options": ["a=b\n#PBS -h"]}, "one line without control"),
        ("pbs", {**GATEWAY, "options": ["-N x"]}, "set by taskq itself"),
        ("pbs", {**GATEWAY, "options": ["-l walltime=1"]}, "set by taskq itself"),
        ("pbs", {**GATEWAY, "options": ["ncpus=1"]}, "set by taskq itself"),
        ("pbs", {**GATEWAY, "gpus": "a100:2"}, "PBS takes a number"),
        ("pbs", {**GATEWAY, "qos": "x"}, "goes with the driver slurm"),
        ("condor", {}, "there are slurm, pbs, htcondor, kubernetes, local, ssh"),
        ("htcondor", {}, "through a gateway"),
        ("htcondor", {**GATEWAY, "token_file": "/a,b"}, "token_file is '/a,b'"),
        ("htcondor", {**GATEWAY, "options": ["rank"]}, "must read NAME = VALUE"),
        ("htcondor", {**GATEWAY, "options": ["a = b\nqueue 9"]}, "one line without control"),
        ("htcondor", {**GATEWAY, "options": ["rank = 1 \\"]}, "must read NAME = VALUE"),
        ("htcondor", {**GATEWAY, "options": ["Executable = /bin/x"]}, "set by taskq itself"),
        ("htcondor", {**GATEWAY, "memory": "1G\nqueue"}, "memory"),
        ("kubernetes", {"image": "x"}, "through a gateway"),
        ("kubernetes", GATEWAY, "needs the image"),
        ("kubernetes", {**GATEWAY, "image": "--x"}, "image"),
        ("kubernetes", {**GATEWAY, "image": "x", "memory": "64G"}, "must read 512Mi or 64Gi"),
        ("slurm", {"slots": 0}, "slots"),
        ("slurm", {"resources": ["scratch"]}, "must read NAME=AMOUNT"),
        ("slurm", {"resources": ["x=1", "x=2"]}, "given twice"),
        ("slurm", {"resource_options": ["scratch=--tmp=1"]}, "has no amount in it"),
        ("slurm", {"resource_options": ["scratch=--tmp={MB}"]}, "has no amount in it"),
        ("slurm", {"resource_options": ["Scratch=--tmp={}"]}, "small letters"),
        ("slurm", {"resource_options": ["nodes=--nodes={}"]}, "set by taskq itself"),
        ("slurm", {"resource_options": ['x=--comment=" {}']}, "without quotes"),
        ("pbs", {**GATEWAY, "resource_options": ["cpu=ncpus={}"]}, "set by taskq itself"),
        ("local", {"as_needed": True}, "goes with the driver"),
        ("kubernetes", {**GATEWAY, "image": "x", "context": "--x"}, "context"),
        ("kubernetes", {**GATEWAY, "image": "x", "namespace": "a/b"}, "namespace"),
        ("kubernetes", {**GATEWAY, "image": "x", "pod": "{"}, "not JSON"),
        ("kubernetes", {**GATEWAY, "image": "x", "pod": "[]"}, "JSON object"),
        ("kubernetes", {**GATEWAY, "image": "x", "pod": '{"volumes": 1}'}, "must be a list"),
        ("kubernetes", {**GATEWAY, "image": "x", "pod": '{"containers": [{}, {}]}'}, "one cont"),
        ("kubernetes", {**GATEWAY, "image": "x", "pod": '{"restartPolicy": "Always"}'}, "by taskq"),
    ],
)
def test_wrong_settings_are_named(driver: str, table: dict[str, Any], words: str) -> None:
    """Before anything is stored."""
    with pytest.raises(UsageError, match=words):
        pilot_settings(driver, {"folder": "/jobs", **table})


@pytest.mark.parametrize("name", ["", "Hpc", "a_b", "-a", "a" * 41, "a\n", "a;b"])
def test_names_are_words_of_job_names(name: str) -> None:
    """Which batch systems show in lists."""
    with pytest.raises(UsageError, match="cannot be a pilot's name"):
        check_name(name)


def test_every_value_of_a_script_is_quoted() -> None:
    """What looks like a shell's is an argument of the agent."""
    settings = slurm(
        gateways=["https://gw.example.org"],
        token_file=f"/secret/{HOSTILE}",
        python=HOSTILE,
        site=HOSTILE,
        agent_options=[f"--scratch={HOSTILE}"],
    )
    words = agent_of(script("slurm", settings))
    assert words[0] == HOSTILE
    assert words[words.index("--token-file") + 1] == f"/secret/{HOSTILE}"
    assert words[words.index("--site") + 1] == HOSTILE
    assert f"--scratch={HOSTILE}" in words
    assert agent_of(script("local", pilot_settings("local", {"folder": "/jobs"})))[:3] == [
        "/opt/a b/taskq",
        "agent",
        "run",
    ]


def test_slurm_is_asked_for_what_the_settings_say() -> None:
    """In minutes, of which Slurm knows no parts."""
    further = ["--nice=5", "--comment=free text"]
    settings = slurm(cores=32, time_limit=90, partition="long", gpus="a100:2", options=further)
    lines = script("slurm", settings).splitlines()
    assert re.fullmatch(rf"#SBATCH --output=/jobs/\d{{4}}-\d\d-\d\d/{NAME}\.out", lines.pop(2))
    assert lines[1:12] == [
        f"#SBATCH --job-name={NAME}",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        "#SBATCH --cpus-per-task=32",
        "#SBATCH --time=2",
        "#SBATCH --no-requeue",
        "#SBATCH --partition=long",
        "#SBATCH --gpus-per-node=a100:2",
        "#SBATCH --nice=5",
        '#SBATCH --comment="free text"',
        "umask 077",
    ]
    assert "--slots 32" in " ".join(agent_of(script("slurm", settings)))


def test_job_of_many_nodes_starts_an_agent_on_each() -> None:
    """All have the name of their job; what one of them comes to ends no other."""
    text = script("slurm", slurm(nodes=8, cores=32, memory="64G", gpus="4"))
    lines = text.splitlines()
    asked = [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH --n")]
    assert asked == ["nodes=8", "ntasks=8", "no-requeue", "no-kill"]
    assert {"#SBATCH --mem=64G", "#SBATCH --gpus-per-node=4"} <= {*lines}
    words = agent_of(text)
    assert words[: words.index("/opt/a b/taskq")] == [
        "srun",
        "--ntasks-per-node=1",
        "--cpus-per-task=32",
        "--export=ALL",
        "--label",
        "--kill-on-bad-exit=0",
        "--no-kill",
        "--wait=0",
    ]
    assert words[words.index("--slots") + 1] == "32"
    assert words[-2:] == ["--name", NAME]
    # srun kills what it has started if it gets SIGTERM itself.
    trap = """trap 'if [ -n "$agent" ]; then scancel --signal=TERM "$SLURM_JOB_ID"; else """
    assert any(line.startswith(trap) for line in lines)
    assert "srun" not in script("slurm", slurm(cores=32))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_script_hands_signals_to_the_agent_and_writes_down_its_code(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Also when the shell alone is signalled, as by Slurm's `--signal=B:TERM`."""
    agent = tmp_path / "taskq"
    agent.write_text(
        "#!/bin/sh\ntrap 'echo ended; exit 7' TERM\necho up\nwhile :; do sleep 0.1; done"
    )
    agent.chmod(0o700)
    settings = pilot_settings("local", {"folder": str(tmp_path), "setup": "export MARK=1"})
    text = job_script(settings, path="/d", names=[NAME], program=[str(agent)])
    with subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.stdout.read() == "ended\n"
        assert process.wait() == 7
    assert (tmp_path / f"{NAME}.exit").read_text() == "7\n"


@pytest.mark.thorough
def test_signal_before_the_script_knows_its_agent_ends_the_agent_too(tmp_path: Path) -> None:
    """Else the shell would end alone, and its agent work on."""
    agent = tmp_path / "taskq"
    agent.write_text("#!/bin/sh\necho up\nwhile :; do sleep 0.1; done")
    agent.chmod(0o700)
    slow = "trap 'sleep 0.5' DEBUG"
    settings = pilot_settings("local", {"folder": str(tmp_path), "setup": slow})
    text = job_script(settings, path="/d", names=[NAME], program=[str(agent)])
    with subprocess.Popen(["bash", "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
        assert process.wait() == 128 + signal.SIGTERM
    assert (tmp_path / f"{NAME}.exit").read_text() == "143\n"


def run_script(tmp_path: Path, setup: str) -> tuple[int, str, str]:
    """Run the script of a job with this set-up; return its code, its output and its exit file.

    The home's login shell defines `module`, as a site's does.
    """
    (tmp_path / ".bash_profile").write_text('module() { [ "$2" = python ] && MODULE="$2"; }\n')
    agent = tmp_path / "taskq"
    agent.write_text('#!/bin/sh\necho "agent with $MODULE"\n')
    agent.chmod(0o700)
    settings = pilot_settings("local", {"folder": str(tmp_path), "setup": setup})
    file = tmp_path / "job"
    file.write_text(job_script(settings, path="/d", names=[NAME], program=[str(agent)]))
    file.chmod(0o700)
    done = subprocess.run(
        [str(file)],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, (tmp_path / f"{NAME}.exit").read_text()


def test_set_up_has_the_commands_of_a_login_shell(tmp_path: Path) -> None:
    """Such as `module`, which batch systems' `sh` lacks; the agent gets what it exports."""
    code, said, exit_file = run_script(tmp_path, "module load python\nexport MODULE")
    assert (code, said, exit_file) == (0, "agent with python\n", "0\n")


@pytest.mark.parametrize(
    ("setup", "code", "words"),
    [
        ("modul load python", 127, "modul: command not found"),
        ("module load perl\nexport MODULE", 1, "ended with code 1"),
        ("echo no licence; exit 3", 3, "no licence"),
        ("source /nonexistent/activate", 1, "/nonexistent/activate"),
    ],
)
def test_set_up_that_fails_ends_the_job_with_its_words_before_the_agent(
    tmp_path: Path, setup: str, code: int, words: str
) -> None:
    """The last line names the set-up, and the code is written down."""
    got, said, exit_file = run_script(tmp_path, setup)
    assert (got, exit_file) == (code, f"{code}\n")
    assert words in said
    assert said.splitlines()[-1] == f"taskq: the set-up of the pilot has ended with code {code}"
    assert "agent with" not in said


def test_set_up_may_let_commands_fail(tmp_path: Path) -> None:
    """As some sites' own scripts do."""
    code, said, _ = run_script(tmp_path, "set +e\nfalse\nexport MODULE=x")
    assert (code, said) == (0, "agent with x\n")


def test_file_describes_several_pilots(tmp_path: Path) -> None:
    """With defaults for what it leaves out."""
    file = tmp_path / "pilots.toml"
    file.write_text(
        '[pilots.hpc]\ndriver = "slurm"\ncampaign = "/demo"\ncores = 32\ntime_limit = "12h"\n'
        '[pilots.here]\ndriver = "local"\ncampaign = "/demo/x"\nfolder = "/jobs/here"\n'
    )
    hpc, here = read_pilot_file(file, folder=tmp_path)
    assert (hpc.name, hpc.driver, hpc.path, hpc.settings.cores) == ("hpc", "slurm", "/demo", 32)
    assert hpc.settings.folder == f"{tmp_path}/hpc"
    assert here.settings.folder == "/jobs/here"


def test_file_in_the_documentation_is_right(tmp_path: Path) -> None:
    """It can be used as it stands."""
    page = Path(__file__, "../../../docs/fleet.md").resolve().read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "pilots.toml").write_text(example)
    hpc, desks = read_pilot_file(tmp_path / "pilots.toml", folder=tmp_path)
    assert (hpc.driver, hpc.settings.time_limit, hpc.settings.most) == ("slurm", 43_200, 32)
    assert (desks.driver, desks.settings.most) == ("ssh", 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pilots = 1", r"tables \[pilots.NAME\]"),
        ("[pilots.a]\ndriver = 'slurm'", r"\[pilots.a\]: driver and campaign"),
        ("[pilots.a]\ndriver = 'slurm'\ncampaign = '/d'\nslip = 1", r"\[pilots.a\]: .*slip"),
        ("[pilots.A]\ndriver = 'slurm'\ncampaign = '/d'", "lower case"),
        ("[pilots.a]\ndriver = 'slurm'\ncampaign = 'd'", "must start with '/'"),
        ("[pilots", "not TOML"),
    ],
)
def test_error_names_what_is_wrong_in_a_pilot_file(tmp_path: Path, text: str, words: str) -> None:
    """With the pilot that it is in."""
    file = tmp_path / "pilots.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_pilot_file(file, folder=tmp_path)
    with pytest.raises(NotFound, match="No such file"):
        read_pilot_file(tmp_path / "gone.toml", folder=tmp_path)
