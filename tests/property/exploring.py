"""State machines are run briefly, or for long with `--hypothesis-profile=soak`."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def explore(machine: type[RuleBasedStateMachine], examples: int, steps: int = 30) -> None:
    """Run a machine so many times, each of so many steps at most; a soak chooses both itself."""
    soak = settings.get_current_profile_name() == "soak"
    brief = settings(max_examples=examples, stateful_step_count=steps)
    run_state_machine_as_test(machine, settings=settings.default if soak else brief)
