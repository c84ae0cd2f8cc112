-- behind_sequences(): the tables whose next id may be taken, such as in a copy by native logical replication. Not
-- `spec`, since each seed looks at that.
--
-- Result: a row for each, see mend_sequences().
--
-- Locks: none. Index: each primary key.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.behind_sequences()
returns table (name text)
language sql
as $$
    select unnest(taskq.mend_sequences(null, true))
$$;
