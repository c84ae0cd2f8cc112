"""Tasks: tasks as rows, spans and bundles: found, listed, unpacked."""
