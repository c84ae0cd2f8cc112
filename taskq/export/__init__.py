"""Export of results: `records` writes them as JSON Lines, CSV or Parquet, in bounded memory.

`destination` is a file that appears only when it is complete, or a stream.
"""
