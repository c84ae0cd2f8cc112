"""Release of the installed agent."""

from __future__ import annotations

from importlib import metadata


def release() -> str:
    """Return the release from the metadata of the installation or of the one-file agent; else "".

    `taskq.pilots.agent_file` puts the metadata into the file.
    """
    try:
        return metadata.version("taskq")
    except metadata.PackageNotFoundError:
        return ""
