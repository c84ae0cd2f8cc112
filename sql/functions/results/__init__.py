"""Results: pages, rankings, indexes, withdrawals."""
