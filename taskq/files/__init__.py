"""Files: inputs, large results, checkpoints, output files, stored as blobs by their SHA-256.

`blobs` opens the store of a queue: PostgreSQL, a folder, S3, any storage that fsspec supports, or a
gateway. `checkpoints` and `outputs` note archives under the fence of an attempt; agents alone make
and read these (`taskq_agent.archive`). `archives` removes what nothing refers to. `destination` is
a file that appears only when it is complete.
"""
