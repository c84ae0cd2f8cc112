"""Problems that are drawn: a cause, a form and a place, in a farm that is otherwise healthy."""
