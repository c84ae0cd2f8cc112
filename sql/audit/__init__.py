"""What must never be found in the tables: one file a check, run by `taskq.db.audit`."""
