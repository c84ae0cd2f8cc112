"""Files: inputs, large results, checkpoints, output files, stored as blobs by their SHA-256.

`blobs` opens the store of a queue: PostgreSQL, a folder, S3, any storage that fsspec supports, or a
gateway. `checkpoints` and `outputs` store archives under the fence of an attempt; only agents make
these (`taskq_agent.archive`). `archives` removes archives to which nothing refers. `destination`
writes a file that appears only when it is complete.
"""
