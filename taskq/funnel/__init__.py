"""The funnel: the best results of one stage become the tasks of the next.

`best` says what the best are, `selection` finds them among the results of finished campaigns, in
bounded memory; where only the best of each group counts, `group_ranking` reads one value and one
digest of each result, and `sorting` sorts them on disk. The stages share keys: to select and seed
again adds nothing, so whoever feeds the next stage may die and begin anew. `live` does so while the
first stage runs.
"""
