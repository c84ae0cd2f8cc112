"""The front: Redis lists of tasks leased ahead, so that a claim need not wait for PostgreSQL.

"Leased ahead" means: leased by the front's pool session before an agent asks. PostgreSQL commits a
task's lease before its entry gets into a list. So Redis is never the truth, and its contents may
vanish, come back or be corrupted at any moment: that costs only time.
"""
