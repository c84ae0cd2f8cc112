"""Rows of answers, as the library passes them on."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
