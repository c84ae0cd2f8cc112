-- stop_full_owners(): stops handing out tasks of owners who have stored as many bytes as their quotas allow,
-- and begins again when they have room. A part of keep(), which calls it now and then; not for clients.
--
-- Running tasks go on, and their results are stored: no computed result is lost, and an owner may exceed the
-- quota by them. It costs a look-up for each campaign of an owner with such a quota.
--
-- Locks: those of set_quota(); campaigns that change. If somebody holds one, the owner is left for the next round,
-- since quota and campaigns change together.
-- Index: quota_pkey, campaign_owner, output_use_pkey.
create or replace function taskq.stop_full_owners()
returns void
language plpgsql
as $$
declare
    v_owner text;
    v_full boolean;
    v_running integer;
    v_campaigns bigint[];
begin
    for v_owner in
        select q.owner from taskq.quota q where q.max_bytes is not null order by q.owner
    loop
        continue when not pg_try_advisory_xact_lock(-3, hashtext(v_owner));
        select not q.is_full, case when q.is_full then q.max_running else 0 end
          into v_full, v_running
          from taskq.quota q
         where q.owner = v_owner
           and (taskq.stored_bytes(q.owner) >= q.max_bytes) <> q.is_full;
        continue when not found;
        v_campaigns := array(
            select c.campaign_id
              from taskq.campaign c
             where c.owner = v_owner
             order by c.campaign_id
               for no key update skip locked);
        if cardinality(v_campaigns) = (
               select count(*) from taskq.campaign c where c.owner = v_owner)
        then
            update taskq.quota q set is_full = v_full where q.owner = v_owner;
            update taskq.campaign c
               set running_quota = v_running
             where c.campaign_id = any (v_campaigns);
        end if;
    end loop;
end
$$;
