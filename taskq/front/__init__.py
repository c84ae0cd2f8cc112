"""The front: Redis lists of tasks leased ahead, so that a claim need not wait for PostgreSQL.

PostgreSQL has leased whatever is in the lists before it gets there. So nothing here is the truth,
and all of it may vanish, come back or turn into garbage at any moment: that costs time and nothing
else.
"""
