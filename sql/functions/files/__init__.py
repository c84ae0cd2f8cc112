"""Files: blobs, inputs, checkpoints, output files."""
