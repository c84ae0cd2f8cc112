"""The submitters' API: `connecting` returns a `client`, of which `aio` has an asynchronous twin."""
