-- archived_range(campaign, after, most): the last id of the next `most` tasks of a campaign after an id; null: there are
-- no more than these. Index: spec_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_range(p_campaign bigint, p_after bigint, p_most integer)
returns bigint
language plpgsql stable
as $$
begin
    return (
        select s.task_id
          from taskq.spec s
         where s.campaign_id = p_campaign
           and s.task_id > p_after
         order by s.campaign_id, s.task_id
        offset p_most - 1
         limit 1);
end
$$;
