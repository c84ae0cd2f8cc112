"""The campaign manager's command line.

main      the command `taskq`: its sub-commands, by section
program   loads a sub-command when it is called; errors become one line and an exit code
shared    what the commands share: `--dsn`, `--output`, campaign paths, the connection
output    records as a table, JSON or JSON Lines
render    tables, bars and the live display; the one module that imports rich
text      instants, durations and foreign text, fit for a terminal
commands  one module for each noun
"""
