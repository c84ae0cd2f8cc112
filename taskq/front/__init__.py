"""The front: Redis lists of tasks leased ahead, so that a claim need not wait for PostgreSQL.

"Leased ahead" means: leased by the front's pool session before an agent asks. PostgreSQL has
committed the lease of whatever is in the lists before it gets there. So Redis is never the truth,
and its contents may vanish, come back or be corrupted at any moment: that costs time and nothing
else.
"""
