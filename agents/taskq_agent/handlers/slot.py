"""The runner of one slot: scratch folders around whatever kind of handler the campaign has."""

from __future__ import annotations

from typing import Optional, Tuple

from taskq_agent import reaper, scratch
from taskq_agent.handlers import checks
from taskq_agent.handlers.base import Ended, Kind, RunnerSettings, broken
from taskq_agent.handlers.command import CommandKind
from taskq_agent.handlers.process import ProcessKind
from taskq_agent.handlers.python import PythonKind
from taskq_agent.handlers.watch import Watch
from taskq_agent.protocol import Campaign, Task


class SlotRunner:
    """Runs tasks of one campaign after the other; a resident child lasts while that is one.

    When the campaign or its revision changes, the child is ended first: two of them, with
    what they hold in memory, may be more than the slot was given.
    """

    def __init__(self, slot: int, settings: RunnerSettings) -> None:
        self._slot = slot
        self._settings = settings
        self._reaper = reaper.shared()
        self._watch = Watch()
        self._folder: Optional[scratch.SlotFolder] = None
        self._serves: Optional[Tuple[int, int]] = None
        self._kind: Optional[Kind] = None
        self._resident_folder = ""

    def run(self, task: Task, campaign: Campaign) -> Ended:
        """Run one attempt to its end."""
        self._watch.begin(campaign.time_limit_s)
        try:
            if self._folder is None:
                self._folder = self._make_folder()
            kind = self._kind_for(campaign, self._folder)
            folder = self._folder.take(f"task{task.task}")
        except ValueError as error:
            return broken("handler-invalid", str(error))
        except OSError as error:
            return broken("scratch-unusable", f"no scratch folder can be made: {error}")
        try:
            return kind.run(task, folder)
        finally:
            self._folder.give_back(folder)

    def stop(self) -> None:
        """End the attempt in hand."""
        self._watch.stop()

    def close(self) -> None:
        """End the resident child and remove the scratch folder."""
        self._drop_kind()
        self._watch.close()
        if self._folder is not None:
            self._folder.close()
            self._reaper.drop("folder", self._folder.path)

    def _make_folder(self) -> scratch.SlotFolder:
        keep = self._settings.keep_scratch
        folder = scratch.SlotFolder(self._settings.scratch_root, self._slot, keep=keep)
        if not keep:
            self._reaper.add("folder", folder.path)
        return folder

    def _kind_for(self, campaign: Campaign, folder: scratch.SlotFolder) -> Kind:
        serves = (campaign.campaign, campaign.revision)
        if self._kind is None or self._serves != serves:
            self._drop_kind()
            checks.check_handler(campaign.handler, campaign.params)
            self._resident_folder = folder.take("resident")
            self._kind = self._make_kind(campaign, self._resident_folder)
            self._serves = serves
        return self._kind

    def _make_kind(self, campaign: Campaign, folder: str) -> Kind:
        watch, grace_s = self._watch, self._settings.grace_s
        kind = campaign.handler["kind"]
        if kind == checks.COMMAND:
            return CommandKind(campaign, watch, grace_s)
        if kind == checks.PROCESS:
            return ProcessKind(campaign, folder, watch, grace_s)
        return PythonKind(campaign, folder, watch, grace_s, self._settings.python_path)

    def _drop_kind(self) -> None:
        if self._kind is not None and self._folder is not None:
            self._kind.close()
            self._kind = None
            self._folder.give_back(self._resident_folder)
