"""What a campaign is and what its tasks are: plain values that read no clock and no environment.

`spec` has the campaign's description (handler, retries, limits), `params` and `tags` its parts,
`model` the nouns that all else speaks in: paths, seeds, statuses.
"""
