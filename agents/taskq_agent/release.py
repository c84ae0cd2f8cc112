"""Which release this is."""

from __future__ import annotations

from importlib import metadata


def release() -> str:
    """Return the release, as the installation or the one-file agent says; empty if neither does.

    `taskq.agent_file` puts the metadata into the file.
    """
    try:
        return metadata.version("taskq")
    except metadata.PackageNotFoundError:
        return ""
