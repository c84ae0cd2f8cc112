"""Export of results: `records` writes JSON Lines, CSV, Parquet or SDF, in bounded memory.

`destination` is a file that appears only when it is complete, or a stream.
"""
