"""The server-side functions, one operation a file."""
