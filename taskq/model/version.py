"""Version of the release, in its own module so that it can be read without further imports."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
