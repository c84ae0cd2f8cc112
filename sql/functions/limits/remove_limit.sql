-- remove_limit(name): removes a named limit, and takes its name from the campaigns that have it.
--
-- Result: how many campaigns named it. Error TQ404: no such limit.
--
-- Locks: one against other changes of limits; the limit; the campaigns that change.
-- Index: named_limit_pkey, campaign_named.
-- @roles operator
-- @gateway no
-- @act limit
create or replace function taskq.remove_limit(p_name text)
returns integer
language plpgsql
as $$
declare
    v_campaigns bigint[];
begin
    perform taskq.demand_read_committed();
    perform pg_advisory_xact_lock(hashtext('taskq.limits'), 0);
    delete from taskq.named_limit l where l.name = p_name;
    if not found then
        raise exception 'no limit %', quote_literal(left(p_name, 80)) using errcode = 'TQ404';
    end if;
    v_campaigns := array(
        select c.campaign_id
          from taskq.campaign c
         where c.named_limits <> '{}'
           and p_name = any (c.named_limits)
         order by c.campaign_id
           for no key update);
    update taskq.campaign c
       set named_limits = array_remove(c.named_limits, p_name)
     where c.campaign_id = any (v_campaigns);
    perform taskq.note_act('/', 'limit', array[p_name, 'removed']);
    return cardinality(v_campaigns);
end
$$;
