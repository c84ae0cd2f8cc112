"""The agent's decisions: events in, actions out. Reads no clock and touches nothing.

`core` is the door: `Core.handle` takes an event and returns the actions to be done about it. The
other modules are its parts, each with the state of one concern.
"""
