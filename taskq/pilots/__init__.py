"""Pilots: agents that taskq starts by itself, as jobs of the batch systems that people have.

A pilot is stored in the database by `Pilots.create` (`store.py`); `PilotLoop` (`loop.py`) submits
its jobs and writes down what becomes of them. How many there should be, and why, says `plan`
(`planner.py`), which is pure, as is `reconcile` (`reconcile.py`), which compares what is written
down with what the batch system says. A driver (`drivers/`) speaks with one kind of batch system;
`job_script` (`script.py`) is what it submits. Nothing else in taskq knows of batch systems.
"""
