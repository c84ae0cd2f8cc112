"""Campaigns: the class `Campaign`, and the verbs that move its tasks.

`Campaign` adds to `indexed` (indexes of results), `followed` (results), and `steered` (pause,
cancel, retry, priorities). A filter is text in a small language (`filter_syntax`, `filter_parser`).
It becomes a jsonpath with values (`filter_compiler`): a parameter of one statement, `find_tasks`,
never SQL. `bulk` and `verbs` find and change the matching tasks in chunks; each chunk
is bounded and commits alone.
"""
