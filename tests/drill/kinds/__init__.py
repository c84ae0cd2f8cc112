"""All kinds of problems of the drill, by name; each module registers its own."""

from tests.drill.kinds import campaigns, enemies, failures, fleet
from tests.drill.scene import KINDS

__all__ = ["KINDS", "campaigns", "enemies", "failures", "fleet"]
