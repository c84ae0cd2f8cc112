"""`taskq top`: the queue on a full screen, and keys that act on it.

`app.py` has the screen with the tree, which follows the ticker of `taskq.monitor`, and the actions;
`screens.py` what is opened from there and asked; `panels.py` reads what is opened, by the functions
that the commands use, and says it as texts and rows. All reading is done in threads beside the
screen, so that no key waits for the database. Only this package imports textual.
"""
