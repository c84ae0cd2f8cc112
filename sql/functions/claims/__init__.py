"""Claims: which waiting tasks an agent gets; the exchange of a report for the next task."""
