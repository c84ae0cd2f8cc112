"""Actions on sets of tasks, chosen by a filter or by key: retry, cancel, prioritise.

A filter is text in a small language (`lexer.py`, `parser.py`), which becomes a jsonpath with values
(`compiler.py`): a parameter of one statement, `find_tasks`, never SQL. What it chooses is found and
changed chunk by chunk (`matching.py`, `bulk.py`), each chunk bounded and committed by itself.
"""
