"""Bugs in what attempts may use, in its figures, and in containers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LIMITS: Final = ("tests/unit/test_agent_handlers_limits.py",)
_CONTAINERS: Final = ("tests/unit/test_agent_handlers_containers.py",)
_ROOM: Final = ("tests/unit/test_agent_rationing.py",)
_QUEUE: Final = ("tests/integration/claims/test_resources.py",)

RESOURCES: Final = (
    Mutant(
        "only-the-child-itself-counts",
        "agents/taskq_agent/handlers/limits.py",
        "            pids = procfs.family(self._pid)\n",
        "            pids = [self._pid]\n",
        "A shell that starts others may occupy any amount of memory.",
        _LIMITS,
    ),
    Mutant(
        "shared-memory-counts-for-each",
        "agents/taskq_agent/procfs.py",
        "if len(pids) > 1 else None",
        "if len(pids) > 1000 else None",
        "A program that forks exceeds its limit with memory that its children share.",
        _LIMITS,
    ),
    Mutant(
        "peak-of-an-earlier-task",
        "agents/taskq_agent/handlers/limits.py",
        "                procfs.forget_peak(self._pid)\n",
        "",
        "A resident child tells the largest size of all its tasks as that of each.",
        _LIMITS,
    ),
    Mutant(
        "small-parts-pass-a-large-one",
        "agents/taskq_agent/handlers/limits.py",
        "self._queue[0] is not turn or ",
        "",
        "Who needs much memory waits for ever while others need little.",
        _LIMITS,
    ),
    Mutant(
        "room-is-never-checked",
        "agents/taskq_agent/room.py",
        "        if devices is None or not (force or self._has(amounts)):\n",
        "        if devices is None:\n",
        "More tasks run than a licence has seats.",
        _ROOM,
    ),
    Mutant(
        "devices-are-never-full",
        "agents/taskq_agent/room.py",
        "needed[name] <= (WHOLE if force else free)",
        "needed[name] <= WHOLE",
        "Two tasks that need a whole GPU run on the same.",
        _ROOM,
    ),
    Mutant(
        "ended-starts-keep-their-room",
        "agents/taskq_agent/room.py",
        "            self._amounts[name] += amount\n",
        "            pass\n",
        "After a few tasks an agent has no room for any.",
        _ROOM,
    ),
    Mutant(
        "nobody-has-the-next-room",
        "agents/taskq_agent/core/rationing.py",
        "            if now - since >= _PATIENCE_S and campaign in self._known:\n",
        "            if now < 0 and campaign in self._known:\n",
        "A task that needs a whole GPU waits for ever while small shares are in demand.",
        _ROOM,
    ),
    Mutant(
        "full-campaigns-are-claimed",
        "agents/taskq_agent/core/claiming.py",
        "        if full := self.rationing.without(held_tasks.queue.values(), now):\n",
        "        if full := ():\n",
        "An agent claims what it cannot start, and hands it back, again and again.",
        _ROOM,
    ),
    Mutant(
        "all-slots-on-the-same-cores",
        "agents/taskq_agent/resources.py",
        "cores=self.cores[slot * cores : (slot + 1) * cores],",
        "cores=self.cores[:cores],",
        "Tasks of several slots share the cores that are to be their own.",
        ("tests/unit/test_agent_resources.py",),
    ),
    Mutant(
        "every-failure-is-for-want-of-memory",
        "sql/functions/files/find_checkpoint.sql",
        "           and a.error_class = 'out-of-memory';\n",
        ";\n",
        "A task gets the next size after any failure.",
        _QUEUE,
    ),
    Mutant(
        "memory-is-no-requirement",
        "sql/migrations/0001_campaigns.sql",
        "        || case when memory is null or memory_learns then '{}'::text[]\n",
        "        || case when true then '{}'::text[]\n",
        "Tasks go to agents whose slots have too little memory.",
        _QUEUE,
    ),
    Mutant(
        "container-outlives-its-agent",
        "agents/taskq_agent/handlers/containers.py",
        "            reaper.remove_container(self._entry)\n",
        "",
        "A container that is stopped runs on.",
        _CONTAINERS,
    ),
    Mutant(
        "secrets-among-arguments",
        "agents/taskq_agent/handlers/containers.py",
        'words += ["--env", variable]',
        'words += ["--env", f"{variable}={env[variable]}"]',
        "All users of a node can read the input of its tasks.",
        _CONTAINERS,
    ),
    Mutant(
        "links-lead-containers",
        "agents/taskq_agent/handlers/containers.py",
        "dict.fromkeys(context.input_files, True)",
        "{str(Path(path).resolve()): True for path in context.inputs.values()}",
        "A payload in a container chooses what the next task of its slot is given of the node.",
        _CONTAINERS,
    ),
    Mutant(
        "links-lead-out-of-what-a-site-allows",
        "agents/taskq_agent/handlers/binding.py",
        "        real = os.path.realpath(bind.host)\n",
        "        real = bind.host\n",
        "A campaign sees what the site keeps for itself.",
        ("tests/unit/test_agent_binds.py",),
    ),
    Mutant(
        "campaigns-steer-runtimes",
        "agents/taskq_agent/handlers/containers.py",
        "    own = dict(env)\n",
        "    own = {**env, **context.given_env}\n",
        "A campaign binds any folder of a node, by a variable that podman obeys.",
        ("tests/unit/test_agent_handlers_surroundings.py",),
    ),
    Mutant(
        "any-variable-is-passed",
        "agents/taskq_agent/handlers/environment.py",
        "        if name not in allowed:\n",
        "        if False:\n",
        "A campaign reads a key of the site.",
        ("tests/unit/test_agent_handlers_surroundings.py",),
    ),
    Mutant(
        "half-of-the-tasks-learn-too-little",
        "sql/functions/upkeep/learnt_sizes.sql",
        "percentile_disc(0.95)",
        "percentile_disc(0.5)",
        "Half of the tasks run out of memory first.",
        ("tests/property/test_learnt_sizes.py",),
    ),
    Mutant(
        "every-failure-teaches-memory",
        "sql/functions/upkeep/learn_memory.sql",
        "(a.outcome = 'done' or a.error_class = 'out-of-memory')",
        "true",
        "A program that fails for another cause raises what all get.",
        ("tests/integration/claims/test_learnt_memory.py",),
    ),
)
