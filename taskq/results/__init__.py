"""Results: export, ranking, cursors, the funnel, traces, molecules.

`records` writes JSON Lines, CSV, Parquet or SDF in bounded memory. `cursor` gives each
result once, however late its transaction commits: a cursor is the set of tasks whose results were
given, as ranges of ids, so it relies on no order of ids, clocks or transactions. `ranking`,
`selection` and `feeder` are the funnel: the best results of one stage become the tasks of the next.
`traces` sends attempts to OpenTelemetry receivers (`otlp`); `poses` finds the molecule of
a result.
"""
