-- left_over(path, offers): what is unfinished at and below a path, and what of it no agent can be given.
--
-- offers: the agent's tags; null: tags are not looked at.
-- unfinished: tasks that wait, are delayed or are worked on. unservable: those of them whose campaign has
--     no handler, has paused itself, or requires tags that are not offered: as things are, waiting
--     for them is in vain. reasons: which campaigns these are, and why, most tasks first; five at most,
--     and then how many more.
-- Error TQ404: no such campaign.
--
-- Reads no task; for what it costs see standing(). Index: campaign_pkey.
create or replace function taskq.left_over(
    p_path text,
    p_offers text[],
    out unfinished bigint,
    out unservable bigint,
    out reasons text[]
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_most constant integer := 5;
begin
    perform taskq.campaign_id(p_path);
    with found as materialized (
        select s.*, taskq.servable_ever(s.has_handler, s.paused_why, s.requires, p_offers) as fine
          from taskq.standing(p_path) s
    ), vain as (
        select f.unfinished, c.path,
               case when not f.has_handler
                    then format('%1$s has no handler: nobody can run it; `taskq campaign change %1$s'
                                ' -- PROGRAM ARGUMENT...` gives it one', c.path)
                    when f.paused_why is not null
                    then format('%1$s has paused itself: %2$s; `taskq campaign resume %1$s` when '
                                'that is mended', c.path, f.paused_why)
                    else format('%s requires %s', c.path, array_to_string(f.requires, ' '))
               end as reason
          from found f
         cross join lateral (
             select c.path from taskq.campaign c where c.campaign_id = f.campaign_id offset 0
         ) c
         where not f.fine
    )
    select coalesce((select taskq.total(f.unfinished) from found f), 0),
           coalesce(taskq.total(v.unfinished), 0),
           (array_agg(v.reason order by v.unfinished desc, v.path))[1:v_most]
           || case when count(*) > v_most
                   then array[format('%s more campaigns', count(*) - v_most)] else '{}' end
      into unfinished, unservable, reasons
      from vain v;
    reasons := coalesce(reasons, '{}');
end
$$;
