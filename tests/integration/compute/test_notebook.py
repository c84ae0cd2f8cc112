"""The notebook runs from its first cell to the plot, again at no cost, and shows its progress."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from taskq import Client
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.thorough

NOTEBOOKS = ROOT / "examples/notebook"


def outputs(notebook: Any, kind: str) -> list[str]:
    """Return what the cells show, of one type."""
    return [
        output["data"][kind]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


def executed(changes: dict[str, str], name: str = "ising") -> Any:
    """Execute a notebook in a kernel of its own; return it."""
    text = (NOTEBOOKS / f"{name}.ipynb").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    notebook = nbformat.reads(text, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook


@pytest.fixture
def kernels(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels use this queue, and folders of their own."""
    monkeypatch.setenv("TASKQ_DSN", dsn)
    for name in ("XDG_CACHE_HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


LIVE = [
    """
import threading
import taskq
queue = taskq.connect()
def work(n):
    if n == 3:
        raise ValueError("<odd>")
    return n
run = queue.map(work, range(5), name="/live")
run
""",
    "queue",
    """
with taskq.local_agents(queue, slots=2):
    run.wait(60, progress=False)
for thread in threading.enumerate():
    if thread.name == "taskq-view":
        thread.join(60)
""",
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.filterwarnings("ignore")  # those of kernels and their sockets
def test_run_is_shown_live() -> None:
    """A cell that shows it is redrawn to the end, with what failed, and offers to cancel it."""
    cells = [nbformat.v4.new_code_cell(source) for source in LIVE]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown, listed = outputs(notebook, "text/html")
    assert "4 of 5 done, 1 failed" in shown
    assert "1 attempt on 1 host failed: ValueError: &lt;odd&gt;" in shown
    assert "1 run<" in listed
    assert "/live" in listed
    widgets = outputs(notebook, "application/vnd.jupyter.widget-view+json")
    assert len(widgets) == (find_spec("ipywidgets") is not None)


@pytest.mark.usefixtures("kernels")
@pytest.mark.filterwarnings("ignore")  # those of kernels and their sockets
def test_notebook_computes_once_and_draws(queue: Client) -> None:
    """In a kernel that is started again, nothing is computed; a changed cell is noticed."""
    few = {"range(15, 36, 2) for s in range(2)": "range(15, 36, 10) for s in range(1)"}
    first = executed(few)
    (picture,) = outputs(first, "image/png")
    assert len(picture) > 5_000
    shown = outputs(first, "text/html")
    assert any("3 of 3 done" in name and "<div" in name for name in shown)
    campaign = queue.campaign("/notebook/ising")
    assert campaign.status().done == 3
    ended = [result.ended_at for result in campaign.results()]
    energies = {
        result.payload["temperature"]: result.result["energy"] for result in campaign.results()
    }
    assert energies[1.5] == pytest.approx(-1.95, abs=0.05)
    executed(few)
    assert [result.ended_at for result in campaign.results()] == ended
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="FunctionChanged"):
        executed(few | {"sweeps // 4": "sweeps // 3"})


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Vina has no wheel for this Python")
@pytest.mark.usefixtures("kernels")
@pytest.mark.filterwarnings("ignore")  # those of kernels and their sockets
def test_docking_funnel_has_its_second_stage_and_draws(queue: Client) -> None:
    """The best of the first stage, and they alone, are docked again."""
    few = {"[:12]": "[:2]", '\\"exhaustiveness\\": 8': '\\"exhaustiveness\\": 2'}
    (picture,) = outputs(executed(few, "docking"), "image/png")
    assert len(picture) > 5_000
    scores = {
        result.key: result.result["score"]
        for result in queue.campaign("/notebook/docking").results(below=False)
    }
    again = queue.campaign("/notebook/docking/refined")
    assert len(scores) == 2
    assert {result.key for result in again.results()} >= {min(scores, key=scores.__getitem__)}
    assert again.status().waiting == 0
