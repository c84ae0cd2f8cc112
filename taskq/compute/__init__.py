"""Functions as they are written: calls of Python functions as tasks of a campaign.

`runs.start` makes a campaign of a function and its arguments and returns a `Run`, from which values
and exceptions are read; `calls.submit` makes one call and returns a future. `Executor` is that of
`concurrent.futures`, and `local_agents` runs agents on this machine. Everything is stored in
ordinary campaigns, with a handler of the kind `function`, which the rest of taskq knows as any
other: what is here can be paused, watched, retried and exported by the command line.
"""
