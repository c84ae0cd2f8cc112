"""The server-side functions, one operation a file, in folders by subject."""
