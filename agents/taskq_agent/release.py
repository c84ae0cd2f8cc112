"""Name and release of the distribution that brings the agent."""

from __future__ import annotations

from typing import Final

#: The name that pip knows. What is imported is `taskq`; another project has that name on PyPI.
DISTRIBUTION: Final = "taskq-campaigns"


def release() -> str:
    """Return the release from the metadata of the installation or of the one-file agent; else "".

    `taskq.pilots.agent_file` puts the metadata into the file.
    """
    from importlib import metadata  # noqa: PLC0415  # slow to import, and seldom needed

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""
