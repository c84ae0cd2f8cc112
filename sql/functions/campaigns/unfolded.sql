-- unfolded(): the moves that are not in the counters yet: a row for each transaction and campaign
-- that no fold has seen, and a sum for each campaign that moved within the last twenty seconds.
-- Together with `counter`, in one statement, they are exact; see fold(). Index: delta_xid.
--
-- Inlined into the calling statement; see subtree().
create or replace function taskq.unfolded()
returns setof taskq.delta
language sql stable
as $$
    select d.*
      from taskq.delta d
     where d.xid >= (
               select case when f.below <= pg_snapshot_xmax(pg_current_snapshot())
                           then f.below else '0' end
                 from taskq.fold f
                where f.only_one)
$$;
