"""The statements that the library sends, one a file."""
