-- fill_index(path, part, name, scan): takes the next results into an index, for callers that wait for it; the
-- keeper does so too, more slowly.
--
-- scan: attempts that are looked at, 20,000 at most. seen: results that it has; done: results that there are; it is
--     complete if these are equal. Error TQ404: no such campaign, or index.
--
-- Locks: see take_in_results().
-- @roles submitter
-- @gateway submitter
-- @repeat safe
-- @act no: an index changes only how fast results are read
create or replace function taskq.fill_index(
    p_path text, p_part text, p_name text, p_scan integer, out seen bigint, out done bigint)
language plpgsql
as $$
declare
    v_campaign constant bigint := taskq.campaign_id(p_path);
    v_index bigint;
begin
    select i.index_id into v_index
      from taskq.result_index i
     where i.campaign_id = v_campaign
       and i.part = p_part
       and i.name = p_name
       and not i.dropped;
    if not found then
        raise exception 'campaign % has no such index', p_path using errcode = 'TQ404';
    end if;
    perform taskq.take_in_results(v_index, least(greatest(p_scan, 1), 20000));
    select i.seen, taskq.done_count(v_campaign) into seen, done
      from taskq.result_index i
     where i.index_id = v_index;
end
$$;
