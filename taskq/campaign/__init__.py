"""Campaigns: the class `Campaign`, and the verbs that move its tasks.

`Campaign` adds to `indexed` (indexes of results), `followed` (results), and `steered` (pause,
cancel, retry, priorities). A filter is text in a small language (`filter_lexer`, `filter_parser`),
which becomes a jsonpath with values (`filter_compiler`): a parameter of one statement,
`find_tasks`, never SQL. What it chooses is found and changed in chunks (`matching`, `bulk`,
`verbs`), each bounded and committed by itself.
"""
