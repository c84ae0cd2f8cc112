"""`taskq top`: the queue on a full screen, and keys that act on it.

`app.py` has the screen with the tree, which follows `taskq.diagnosis.ticker`, and the actions;
`screens.py` has the other screens and the questions. `panels.py` reads what they show, with the
functions of the commands, and returns texts and rows. Threads do all reading, so that no key waits
for the database. Only this package imports textual.
"""
