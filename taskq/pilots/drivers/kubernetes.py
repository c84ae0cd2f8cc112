"""Kubernetes: a Job of one pod for each agent, by kubectl.

A pilot has a ConfigMap with the agent and a Secret with the token, which its pods mount. Each job
applies both again in the same call, which restores what was lost or changed. Manifests are JSON and
go through standard input.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from taskq.pilots.agent_file import AGENT_FILE, built
from taskq.pilots.drivers.commands import BatchSystemError, missing_program, run, without_secrets
from taskq.pilots.drivers.folder import TAIL_BYTES, as_tail, checked_token
from taskq.pilots.reconcile import EndReason, SeenJob
from taskq.pilots.script import job_script
from taskq.pilots.settings import PilotSettings

#: Where the agent works in its container.
_FOLDER: Final = "/taskq"
#: The label of everything that belongs to a pilot: its name and key.
_PILOT: Final = "app.kubernetes.io/instance"
#: The label of a pod: the name of its job.
_JOB: Final = "taskq/job"
_OURS: Final = {"app.kubernetes.io/name": "taskq-agent", "app.kubernetes.io/managed-by": "taskq"}
#: Seconds that an agent has to leave when its pod is to end.
_GRACE_S: Final = 60
#: Seconds for which jobs that have ended stay known: longer than a loop is away.
_KNOWN_S: Final = 3_600
_TAIL_LINES: Final = 40
# A line for each object, with only the fields that are read, since each object holds a script.
_LINES: Final = (
    '{range .items[*]}{"["}"{.kind}","{.metadata.name}","{.metadata.labels.taskq/job}",{.status}'
    '{"]"}{"\\n"}{end}'
)


class Kubernetes:
    """The cluster that kubectl talks to here, or the cluster of a context."""

    def __init__(self, settings: PilotSettings, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = without_secrets(environment)
        self.system: Final = ("kubernetes", settings.context, settings.namespace)

    def missing(self) -> str | None:
        """Return a message if kubectl is not here; else None."""
        return missing_program(self._environment, "kubectl")

    def prepare(self, places: Mapping[str, int]) -> str | None:
        """Check the token."""
        del places
        checked_token(self._settings.token_file or "")
        return None

    def script(self, names: Sequence[str], path: str, program: Sequence[str]) -> str:
        """Return the manifest of the Job."""
        settings = self._settings
        there = replace(
            settings,
            folder=_FOLDER,
            token_file=f"{_FOLDER}/token",
            ca=settings.ca and f"{_FOLDER}/ca.pem",
        )
        # The first process of a container gets only the signals that it handles.
        head = ["exec 2>&1", "trap 'exit 143' TERM"]
        script = job_script(there, path=path, names=names, program=program, head=head)
        return json.dumps(self._job(names[0], script), indent=2) + "\n"

    def submit(self, names: Sequence[str], script: str, place: str | None) -> list[SeenJob]:
        """Apply a job with what it mounts; a job that is there stays as it is."""
        del place
        (name,) = names
        items = [*self._mounted(name), json.loads(script)]
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        # On the server, so that no annotation repeats the token.
        ours = ("--server-side", "--force-conflicts", "--field-manager=taskq", "--filename=-")
        self._kubectl("apply", *ours, text=manifest)
        return [SeenJob(name, "queued")]

    def jobs(self, names: Sequence[str]) -> dict[str, SeenJob]:
        """Return what the cluster says of jobs and of their pods."""
        pilots = ",".join(sorted({_pilot(name) for name in names}))
        said = self._kubectl(
            *("get", "jobs,pods", f"--selector={_PILOT} in ({pilots})"),
            f"--output=jsonpath={_LINES}",
        )
        found: dict[str, dict[str, Any]] = {}
        pods: dict[str, dict[str, Any]] = {}
        try:
            for kind, name, job, status in map(json.loads, said.splitlines()):
                if kind == "Job":
                    found[name] = {**status}
                else:
                    pods[job] = {**status}
            return {
                name: _seen(name, found[name], pods.get(name, {}))
                for name in names
                if name in found
            }
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
            raise BatchSystemError(
                f"kubectl gave an answer that makes no sense: {said[:200]!r}"
            ) from None

    def cancel(self, jobs: Sequence[SeenJob]) -> None:
        """Delete jobs that still wait, all with one command."""
        known = self.jobs([job.native_id for job in jobs]) if jobs else {}
        waiting = [name for name, job in known.items() if job.state == "queued"]
        if waiting:
            self._kubectl("delete", "job", *waiting, "--ignore-not-found", "--wait=false")

    def exit_code(self, name: str) -> None:
        """Return None: answers have the exit code."""

    def tail(self, name: str, place: str | None) -> str | None:
        """Return the end of the agent's output, as long as its pod is there."""
        del place
        with suppress(BatchSystemError):
            said = self._kubectl("logs", f"job/{name}", f"--tail={_TAIL_LINES}")
            return as_tail(said.encode()[-TAIL_BYTES:])
        return None

    def _job(self, name: str, script: str) -> dict[str, Any]:
        settings = self._settings
        labels = {**_OURS, _PILOT: _pilot(name)}
        pod = json.loads(settings.pod or "{}")
        (container,) = pod.get("containers", [{}])
        files = (AGENT_FILE, "token", *(["ca.pem"] if settings.ca else []))
        mounts = [
            {"name": "taskq-work", "mountPath": _FOLDER},
            *(
                {"name": "taskq-files", "mountPath": f"{_FOLDER}/{file}", "subPath": file}
                for file in files
            ),
        ]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": _KNOWN_S,
                "template": {
                    "metadata": {"labels": {**labels, _JOB: name}},
                    "spec": {
                        # The agent needs nothing of the cluster.
                        "automountServiceAccountToken": False,
                        "enableServiceLinks": False,
                        "terminationGracePeriodSeconds": _GRACE_S,
                        **pod,
                        "restartPolicy": "Never",
                        "activeDeadlineSeconds": math.ceil(settings.time_limit),
                        "containers": [
                            {
                                **container,
                                "name": "agent",
                                "image": settings.image,
                                "command": ["sh", "-c", script],
                                "resources": _resources(settings),
                                "volumeMounts": [*container.get("volumeMounts", []), *mounts],
                            }
                        ],
                        "volumes": [*pod.get("volumes", []), *_volumes(_pilot(name))],
                    },
                },
            },
        }

    def _mounted(self, name: str) -> list[dict[str, Any]]:
        """Return the manifests of what the pilot's pods mount."""
        settings = self._settings
        metadata = {"name": _pilot(name), "labels": {**_OURS, _PILOT: _pilot(name)}}
        files = {AGENT_FILE: built()}
        if settings.ca is not None:
            try:
                files["ca.pem"] = Path(settings.ca).read_bytes()
            except OSError as error:
                words = f"the certificates {settings.ca} cannot be read: {error.strerror}"
                raise BatchSystemError(words) from None
        token = checked_token(settings.token_file or "")
        kinds = (("ConfigMap", "binaryData", files), ("Secret", "data", {"token": token}))
        return [
            {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": metadata,
                field: {file: base64.b64encode(data).decode() for file, data in content.items()},
            }
            for kind, field, content in kinds
        ]

    def _kubectl(self, *words: str, text: str = "") -> str:
        chosen = (("context", self._settings.context), ("namespace", self._settings.namespace))
        argv = ["kubectl", *(f"--{option}={value}" for option, value in chosen if value)]
        return run([*argv, *words], environment=self._environment, text=text)


def _pilot(name: str) -> str:
    """Return the prefix of the names of a pilot's jobs: taskq-NAME-KEY."""
    return name.rpartition("-")[0]


def _resources(settings: PilotSettings) -> dict[str, Any]:
    """Return what the container gets: its requests are its limits."""
    amounts = {"cpu": str(settings.cores)}
    if settings.memory is not None:
        amounts["memory"] = f"{settings.memory.rstrip('i')}i"
    if settings.gpus is not None:
        kind, _, number = settings.gpus.rpartition(":")
        amounts[kind or "nvidia.com/gpu"] = number
    return {"requests": amounts, "limits": amounts}


def _volumes(pilot: str) -> list[dict[str, Any]]:
    sources = [{"configMap": {"name": pilot}}, {"secret": {"name": pilot}}]
    return [
        {"name": "taskq-work", "emptyDir": {}},
        {"name": "taskq-files", "projected": {"sources": sources, "defaultMode": 0o444}},
    ]


def _seen(name: str, job: Mapping[str, Any], pod: Mapping[str, Any]) -> SeenJob:
    """Return the state of a job. job, pod: their status; the pod's is empty if there is none."""
    conditions = {
        condition["type"]: condition
        for condition in job.get("conditions", ())
        if condition.get("status") == "True"
    }
    over = conditions.get("Failed") or conditions.get("Complete")
    if over is None:
        phase = pod.get("phase", "Pending")
        why = phase if phase != "Pending" else _words("Pending", _obstacle(pod))
        return SeenJob(name, "queued" if phase == "Pending" else "running", why)
    return SeenJob(
        name,
        "ended",
        _words(over["type"], pod if "reason" in pod else over),
        exit_code=next(
            (
                code
                for container in _containers(pod, "terminated")
                if (code := container.get("exitCode")) is not None
            ),
            None,
        ),
        reason=_reason(pod),
    )


def _reason(pod: Mapping[str, Any]) -> EndReason | None:
    """Return why a pod was ended, by its status."""
    for condition in pod.get("conditions", ()):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return "preempted"
    if any(container.get("reason") == "OOMKilled" for container in _containers(pod, "terminated")):
        return "memory"
    reasons: dict[object, EndReason] = {"DeadlineExceeded": "time", "NodeLost": "node"}
    return reasons.get(pod.get("reason"))


def _obstacle(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a pod waits for: a node, or its container."""
    waits = _containers(pod, "waiting")
    unplaced = [
        condition for condition in pod.get("conditions", ()) if condition.get("status") == "False"
    ]
    placed = [condition for condition in unplaced if condition.get("type") == "PodScheduled"]
    return next(iter((*waits, *placed)), {})


def _containers(pod: Mapping[str, Any], state: str) -> list[Mapping[str, Any]]:
    found = (status.get("state", {}).get(state) for status in pod.get("containerStatuses", ()))
    return [container for container in found if container is not None]


def _words(state: str, said: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, (state, said.get("reason"), said.get("message"))))
