"""The schema, its migrations and the server-side functions, as SQL files."""
