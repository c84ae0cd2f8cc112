"""What a server must be, declared once: for `taskq db migrate`, and for `taskq db check`."""
