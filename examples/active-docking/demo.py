"""Run the campaign with a model that steers it, and tell what was found: `make demo-active`.

    python examples/active-docking/demo.py [--plot docs/active-docking.svg]

Each step is a command that one could type. --plot: also draw what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from learn import found
from nci import library, scores
from plot import svg

HERE = Path(__file__).resolve().parent
TASKQ = Path(sys.executable).with_name("taskq")
CAMPAIGN = "/demo/active"


def run(*argv: str) -> None:
    """Show a command as it would be typed, and run it; CalledProcessError if it fails."""
    print(f"\n$ {' '.join(argv)}", flush=True)
    program, *rest = argv
    whole = [sys.executable, *rest] if program == "python" else [str(TASKQ), *rest]
    subprocess.run(whole, check=True)


def demo(folder: Path, plot: Path | None) -> None:
    """Run all steps; files go to the folder, and a chart of what was found to `plot`."""
    run("taskq", "up")
    known = subprocess.run(
        [str(TASKQ), "status", CAMPAIGN], capture_output=True, check=False
    ).returncode
    if known == 0:
        run("taskq", "campaign", "rm", CAMPAIGN, "--yes")
    run("taskq", "campaign", "create", "--campaign-file", str(HERE / "campaign.toml"))
    seeds = folder / "library.jsonl"
    with seeds.open("w") as lines:
        for ligand in library():
            lines.write(json.dumps({"number": ligand.key, "smiles": ligand.smiles}) + "\n")
    run("taskq", "seed", CAMPAIGN, str(seeds), "--key-field", "number")

    run("taskq", "campaign", "pause", CAMPAIGN)

    agent = ["agent", "run", "--campaign", CAMPAIGN, "--slots", str(os.cpu_count() or 1)]
    agent += ["--until-empty", "--quiet", "--path", str(HERE)]
    print(f"\n$ taskq {' '.join(agent)} &", flush=True)
    working = subprocess.Popen([str(TASKQ), *agent], start_new_session=True)
    try:
        run("python", str(HERE / "learn.py"), CAMPAIGN, "--dock", "20%", "--in-step")
        working.wait()
    finally:
        working.terminate()
        working.wait()

    results = folder / "results.jsonl"
    run("taskq", "export", CAMPAIGN, "--to", str(results))
    records = [json.loads(line) for line in results.read_text().splitlines()]
    order = [
        record["key"] for record in sorted(records, key=lambda record: str(record["ended_at"]))
    ]
    whole = scores()
    if plot is not None:
        plot.write_text(svg(found(order, whole), len(whole)))
    for share, name in ((0.01, "1 %"), (0.05, "5 %")):
        part = found(order, whole, share)[-1]
        by_chance = len(order) / len(whole)
        print(f"Found of the best {name}: {part:.0%}, by chance {by_chance:.0%}.")


def main() -> int:
    """Run the demo in a folder of its own, or draw; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its agent ends as with Ctrl-C
    parser = argparse.ArgumentParser(description="Run the active docking campaign.")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    plot = parser.parse_args().plot
    try:
        demo(Path(tempfile.mkdtemp(prefix="taskq-demo-")), plot)
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    except KeyboardInterrupt:
        print("\nInterrupted; `make demo-active` starts again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
