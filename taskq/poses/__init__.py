"""Poses: of each result its molecule, so that results can be written as an SDF file.

`finding` takes it from the task's output files or from a field. It may come from any agent, so
`taskq.export.sdf` checks it, and PDBQT is converted by a process beside: `converter` asks
`pdbqt_process`.
"""
