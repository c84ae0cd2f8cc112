"""What commands show: tables, records, bars, progress."""
