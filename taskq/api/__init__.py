"""What submitters use: `client`, its asynchronous twins (`aio`), and reading from a standby."""
