"""Calls of Python functions, written as usual, as tasks of a campaign.

`runs.start` makes a campaign of a function and its arguments and returns a `Run`, which gives the
values and exceptions; `runs.Calls` makes single calls and returns futures. `Executor` implements
`concurrent.futures.Executor`, and `local_agents` runs agents on this machine. Everything is stored
in ordinary campaigns, with a handler of the kind `function`. The rest of taskq treats them as any
other: the command line pauses, watches, retries and exports them.
"""
