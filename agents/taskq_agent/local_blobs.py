"""Blobs without a queue: inputs are local files, results stay in memory."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional, Tuple

from taskq_agent.errors import Refused
from taskq_agent.protocol import Held, Input

_CHUNK = 1 << 20


class LocalBlobs:
    """Implementation of `transport.TaskBlobs`.

    written: the stored blobs, by digest. outputs: the archives of output files, by task.
    """

    def __init__(self) -> None:
        self.written: Dict[str, bytes] = {}
        self.outputs: Dict[int, bytes] = {}
        self._files: Dict[str, Path] = {}
        self._checkpoints: Dict[Tuple[int, int], Input] = {}

    def inputs(self, files: Mapping[str, Path]) -> Dict[str, Input]:
        """Add files by the names that tasks use for them; OSError if one cannot be read."""
        found = {}
        for name, file in files.items():
            hashed, size = hashlib.sha256(), 0
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    hashed.update(chunk)
                    size += len(chunk)
            found[name] = Input(hashed.hexdigest(), size)
            self._files[hashed.hexdigest()] = file
        return found

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a file from an offset to its end."""
        if digest in self.written:
            yield self.written[digest][offset:]
            return
        if digest not in self._files:
            raise Refused(f"no input has the digest {digest}")
        with self._files[digest].open("rb") as stream:
            stream.seek(offset)
            while chunk := stream.read(_CHUNK):
                yield chunk

    def write_blob(self, digest: str, data: bytes) -> None:
        """Keep a large result."""
        self.written[digest] = data

    def find_checkpoint(self, held: Held) -> Optional[Input]:
        """Return the saved checkpoint of a task."""
        return self._checkpoints.get((held.campaign, held.task))

    def memory_failures(self, held: Held) -> int:  # noqa: ARG002
        """Return 0: every attempt is a first one."""
        return 0

    def save_checkpoint(self, held: Held, saved: Input) -> bool:
        """Keep a checkpoint."""
        self._checkpoints[held.campaign, held.task] = saved
        return True

    def save_output(self, held: Held, saved: Input) -> bool:
        """Keep the output files of a task."""
        self.outputs[held.task] = self.written[saved.digest]
        return True
