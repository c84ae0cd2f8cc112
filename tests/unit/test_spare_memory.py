"""pyarrow in processes that give it no frames: without pandas, which takes 50 MB."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from taskq.results.parquet import require_pyarrow, spare_memory
spare_memory()
pa = require_pyarrow()
table = pa.table({"n": pa.array([1, None], pa.int64())})
assert "pandas" not in sys.modules
assert pa.default_memory_pool().backend_name == "system"
import pandas
assert table.to_pandas()["n"].sum() == 1
"""


def test_arrays_do_not_import_pandas_which_frames_find_later() -> None:
    """That is sought once, with the first array; other code imports it as ever."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
