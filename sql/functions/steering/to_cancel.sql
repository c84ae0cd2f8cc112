-- to_cancel(path): the campaigns at and below a cancelled one for which cancel() is to be called, by their ids: those with
-- unfinished tasks, those with moves that are not folded, and those in which a seed or retry is under way.
--
-- To be asked once the cancellation has committed. Then a seed or retry that takes the campaign's lock of seed_begin()
-- after this has looked at the locks is refused, and of one that had released it before the counts below are read later.
-- So nothing is left behind, and campaigns that have ended cost no call.
-- Error TQ404: no such campaign.
--
-- Index: campaign_path_key, campaign_pkey, counter_unfinished, delta_xid.
-- @roles manager operator
-- @gateway manager
-- @repeat safe
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.to_cancel(p_path text)
returns bigint[]
language plpgsql
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_locks oid[];
begin
    perform taskq.demand_read_committed();
    v_locks := array(
        select l.objid
          from pg_locks l
         where l.locktype = 'advisory'
           and l.database = (select d.oid from pg_database d where d.datname = current_database())
           and l.classid::bigint = hashtext('taskq.seed') & 4294967295::bigint
           and l.objsubid = 2);
    return array(
        select n.campaign_id
          from taskq.counter n
         where n.unfinished
           and v_top = any ((select c.lineage from taskq.campaign_of(n.campaign_id) c)::bigint[])
         union
        select d.campaign_id
          from taskq.unfolded() d
         where v_top = any ((select c.lineage from taskq.campaign_of(d.campaign_id) c)::bigint[])
         union
        select c.campaign_id
          from taskq.subtree(p_path) c
         where cardinality(v_locks) > 0
           and (hashint8(c.campaign_id) & 4294967295::bigint)::oid = any (v_locks)
         order by campaign_id);
end
$$;
