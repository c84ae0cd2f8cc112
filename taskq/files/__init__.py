"""Files: inputs, large results, checkpoints, output files, stored as blobs by their SHA-256.

`blobs` opens the store of a queue: PostgreSQL, a folder, S3, any storage that fsspec supports, or a
gateway. `archives` stores checkpoints and output files under the fence of an attempt, and removes
those to which nothing refers; only agents make them (`taskq_agent.archive`). `destination` writes a
file that appears only when it is complete.
"""
