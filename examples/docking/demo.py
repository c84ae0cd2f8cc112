"""Run the docking campaign from nothing to the table of best hits: what `make demo` does.

Each step is a command that one could type; they are shown as they run. A campaign of an earlier
run is removed first. Ctrl-C stops the agent, whose tasks go back to the queue.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
TASKQ = Path(sys.executable).with_name("taskq")
CAMPAIGN = "/demo/docking"


def shown(argv: list[str], *, note: str = "") -> list[str]:
    """Show a command as it would be typed; return it as it is to be run."""
    print(f"\n$ {' '.join(argv)}{note}", flush=True)
    program, *rest = argv
    return [sys.executable if program == "python" else str(TASKQ), *rest]


def run(*argv: str, stdin: IO[bytes] | None = None, note: str = "") -> None:
    """Run a command to its end; CalledProcessError if it fails."""
    subprocess.run(shown(list(argv), note=note), check=True, stdin=stdin)


def exists() -> bool:
    """Tell whether an earlier run has left its campaign."""
    status = [str(TASKQ), "status", CAMPAIGN]
    return subprocess.run(status, capture_output=True, check=False).returncode == 0


def demo(folder: Path) -> None:
    """Run all steps; files go to the folder."""
    run("taskq", "up")
    if exists():
        run("taskq", "campaign", "rm", CAMPAIGN, "--yes")
    run("taskq", "campaign", "create", "--campaign-file", str(HERE / "campaign.toml"))

    seeds = folder / "seeds.jsonl"
    with seeds.open("wb") as lines:
        argv = shown(["python", str(HERE / "seeds.py")], note=f" > {seeds}")
        subprocess.run(argv, check=True, stdout=lines)
    run("taskq", "seed", CAMPAIGN, str(seeds), "--key-field", "name")

    log = folder / "agent.log"
    slots = str(os.cpu_count() or 1)
    agent = ["taskq", "agent", "run", "--campaign", CAMPAIGN, "--slots", slots]
    agent += ["--until-empty", "--path", str(HERE)]
    with log.open("wb") as output:
        argv = shown(agent, note=f" 2> {log} &")
        working = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)
    try:
        run("taskq", "watch", CAMPAIGN)
        working.wait()
    finally:
        working.terminate()
        working.wait()

    results = folder / "results.jsonl"
    run("taskq", "export", CAMPAIGN, "--format", "jsonl", "--to", str(results))
    run("python", str(HERE / "check.py"), str(results))
    best = ["--best", "5", "--by", "result.score", "--lowest", "--to", str(folder / "poses")]
    run("taskq", "fetch", CAMPAIGN, *best)
    print("\n`taskq ls /demo` shows the campaign again; `taskq down` stops the database.")


def main() -> int:
    """Run the demo in a folder of its own; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its agent ends as with Ctrl-C
    folder = Path(tempfile.mkdtemp(prefix="taskq-demo-"))
    try:
        demo(folder)
    except subprocess.CalledProcessError as error:
        print(f"\nThat failed (exit code {error.returncode}); see also {folder}", file=sys.stderr)
        return error.returncode or 1
    except KeyboardInterrupt:
        print("\nInterrupted; nothing is lost, and `make demo` starts again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
