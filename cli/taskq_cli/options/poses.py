"""Options of `taskq export` that say which molecule goes with a result, for SDF."""

from __future__ import annotations

from typing import Any, Final

import click

from taskq import Client
from taskq.files.blob_store import BlobStore
from taskq.model.errors import UsageError
from taskq.model.words import counted
from taskq.results.poses import Poses
from taskq_cli.decorators import together
from taskq_cli.display.text import one_line

pose_options: Final = together(
    click.option(
        "--pose",
        metavar="PATTERN",
        help="Which of a task's output files has its molecule, as 'best*.sdf'. [sdf; default: the "
        "only one of its suffix, .sdf or .mol, or else .pdbqt]",
    ),
    click.option(
        "--pose-field",
        metavar="FIELD",
        help="Take the molecule from here instead, as result.molblock. [sdf]",
    ),
    click.option(
        "--on-missing",
        type=click.Choice(["skip", "fail"]),
        help="What becomes of a result without a molecule. [sdf; default: skip]",
    ),
)
_NAMES: Final = ("pose", "pose_field", "on_missing")


class PoseOptions:
    """The options, as they were given. how: the format of the export."""

    def __init__(self, options: dict[str, Any], how: str) -> None:
        self._pattern, self._field, on_missing = (options.pop(name) for name in _NAMES)
        self._fail = on_missing == "fail"
        if how != "sdf" and (self._pattern or self._field or on_missing):
            raise UsageError("--pose, --pose-field and --on-missing go with SDF, as --to hits.sdf")
        if self._pattern and self._field:
            raise UsageError("--pose names a file, --pose-field a field: choose one")

    def poses(self, client: Client, blobs: BlobStore | None) -> Poses:
        """Return the molecules that these mean."""
        return Poses(client, pattern=self._pattern, field=self._field, blobs=blobs, fail=self._fail)


def tell(poses: Poses) -> None:
    """Say how many results were left out, and why the first one was."""
    if poses.left_out:
        text = counted(poses.left_out, "result")
        click.echo(
            f"Warning: left out: {text} without a molecule; {one_line(poses.first)}.", err=True
        )
