"""The agent's state machine: events in, actions out. It reads no clock and does no I/O.

The entry point is `core`: `AgentCore.handle` takes an event and returns the actions to perform.
Each other module holds the state of one concern.
"""
