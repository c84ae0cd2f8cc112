"""Words for what an agent warns of in its heartbeats."""

#: Reports cannot be written to its spool and are in memory only; its scratch disk is nearly full;
#: its clock is off by more than a minute; its exchanges fail, and heartbeats do not; inputs or
#: large results are not transferred; reports never come through; its scratch folder cannot be used.
SPOOL_UNUSABLE = "spool"
DISK_FULL = "disk"
CLOCK_OFF = "clock"
EXCHANGES_FAIL = "exchange"
TRANSFERS_FAIL = "transfer"
REPORTS_WITHHELD = "withheld"
SCRATCH_UNUSABLE = "scratch"
