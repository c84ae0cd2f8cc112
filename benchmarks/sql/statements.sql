-- Transactions of a database so far; each statement of a gateway is one. Processes tell of theirs
-- once a second, and those that have nothing to do any more after ten.
select xact_commit + xact_rollback as transactions
  from pg_stat_database
 where datname = %(database)s
