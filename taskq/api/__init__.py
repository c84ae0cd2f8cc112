"""The submitters' API: `client`, its asynchronous twins (`aio`), and reading from a standby."""
