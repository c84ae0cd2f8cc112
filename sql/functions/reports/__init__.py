"""Reports: how attempts ended: settling, verdicts, late results."""
