"""Pages for people: `taskq web`, a server of its own next to the queue.

It reads with the functions of the commands. Viewers with a manager's token may also act: `acts`
says what, `acting` has it confirmed, and `gateway.permits` checks the token. `pages` reads,
`templates/` lays out, `charts` draws; pages work without scripts and load nothing from elsewhere.
One ticker sends live figures to all viewers (`diagnosis.ticker`). Readings that take more than a
few milliseconds are kept for some seconds (`diagnosis.shared_readings`). So many viewers cost as
much as one. `access` decides who may look.
"""
