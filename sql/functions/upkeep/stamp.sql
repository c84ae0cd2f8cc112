-- stamp(): how far this database has come: the rounds of keepers, the time, and a signature. Agents get it with the
-- answers to their heartbeats and show it with later ones. A database that is shown a later stamp of its own lacks what
-- was committed since: it was set back, see note_stamps(). So agents prove that even where no keeper remembers.
--
-- Stamps of one database are in order of time as texts, in the collation "C". Index: single row.
-- @roles serving
create or replace function taskq.stamp()
returns text
language sql volatile
as $$
    select taskq.stamp_of(k.rounds, extract(epoch from clock_timestamp())::bigint)
      from taskq.keeper k
     where k.only_one
$$;
