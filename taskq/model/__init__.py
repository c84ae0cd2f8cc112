"""Values of the queue, without I/O: campaigns, handlers, seeds, views, errors, words.

`campaign_spec` defines a campaign; `handler`, `retry_policy`, `requirements` define its parts;
`seed` has paths and keys; `views` what the queue returns; `words` writes numbers and times.
"""
