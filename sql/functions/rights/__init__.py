"""Rights: tokens of agents and managers, roles."""
