"""Parts of the case `endurance`: its disk, and its curves. `test_short` runs all of it."""

from __future__ import annotations

import errno
import os

import pytest

from benchmarks import plot
from benchmarks import small_disk as disks
from benchmarks.findings import Finding, Goal
from benchmarks.small_disk import small_disk
from taskq.model.errors import Unavailable

MB = 1_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_small_disk_takes_no_more_than_its_size() -> None:
    """And it is gone afterwards, with what it held."""
    with small_disk(20 * MB) as disk:
        if not disk.mounted:
            pytest.skip("no file system can be mounted here")
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            (disk.folder / "file").write_bytes(bytes(30 * MB))
        disk.check()
        assert 0 < disk.used() <= disk.size
    assert not disk.folder.exists()


def test_folder_in_place_of_a_disk_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be mounted, the limit is one all the same."""
    monkeypatch.setattr(disks, "_mount", lambda *_: False)
    with small_disk(2 * MB) as disk:
        (disk.folder / "file").write_bytes(bytes(MB))
        disk.check()
        (disk.folder / "further").write_bytes(bytes(MB) + bytes(8192))
        with pytest.raises(Unavailable, match="on a disk that may hold 2,000,000"):
            disk.check()


def test_chart_has_the_curve_of_each_finding_that_has_one() -> None:
    """Below the bars, from zero: the highest point is the largest figure."""
    flat = Finding("a < b", 1.0, "MB", goal=Goal(2.0, "most"))
    curved = Finding("rate", 3.0, "", goal=Goal(1.0), curve=(4.0, 1.0, 0.0))
    chart = plot.svg([flat, curved])
    assert chart.count("<polyline") == 1
    (points,) = (line for line in chart.splitlines() if line.startswith("<polyline"))
    heights = [float(pair.split(",")[1]) for pair in points.split('"')[1].split()]
    assert heights[0] < heights[1] < heights[2]
    assert "rate: 0 to 4" in chart
    assert "<polyline" not in plot.svg([flat])
