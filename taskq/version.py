"""The release, in a module of its own so that it can be read without importing the rest."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
