"""A module that cannot be imported."""

import a_library_that_is_not_installed  # noqa: F401 - that is the point
