"""Folders that tests use, wherever a test file lives."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAYLOADS: Final = ROOT / "tests" / "payloads"
