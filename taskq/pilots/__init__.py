"""Pilots: stored rules by which taskq starts agents as jobs of a batch system.

`Pilots.create` (`store`) stores a pilot in the database. `PilotLoop` (`loop`) submits its jobs and
writes down what becomes of them. `decide` (`planner`) decides how many there should be, and
`plan_words` says why. `reconcile` (`reconcile`) compares the stored jobs with the batch system's
answer. All three are pure. A driver (`drivers/`) talks to one kind of batch system; `job_script`
(`script`) writes what it submits. Nothing else in taskq knows of batch systems.
"""
