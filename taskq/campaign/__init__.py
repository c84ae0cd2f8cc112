"""Campaigns: the class `Campaign`, and the verbs that move its tasks.

`Campaign` has a few lines for each verb and describes it; `verbs`, `priorities`, `reading` and
`indexes` do the work on a `subtree`.

A filter is text in a small language (`filter_parser`).
It becomes a jsonpath with values (`filter_compiler`): a parameter of one statement, `find_tasks`,
never SQL. `bulk` and `verbs` find and change the matching tasks in chunks; each chunk
is bounded and commits alone.
"""
