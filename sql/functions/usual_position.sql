-- usual_position(campaign): the connection's position hint, see pick(), if single tasks can be claimed from
-- the span that it names; null: take() must look. A part of take_one() and take_each(); not for clients.
--
-- A hint that may not be used any more begins anew at the first span, unless tasks wait that have failed
-- before: take() looks for them then. Of a campaign with a limit of running tasks it gives none: claims wait for
-- each other in room(), and must hold no span while they do.
--
-- Locks: a first span. Index: span_waiting, task_waiting, task_waiting_again.
create or replace function taskq.usual_position(p_campaign bigint)
returns bigint[]
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_setting text := 'taskq.position_' || p_campaign;
    v_hint bigint[] := nullif(current_setting(v_setting, true), '')::bigint[];
    v_fresh constant boolean := coalesce(v_now_us between v_hint[3] - 5000000 and v_hint[3], false);
    v_row bigint[];
    v_again boolean;
begin
    if not v_fresh then
        select array[-32768, 0, -v_now_us, 0, -s.priority, s.first_id] into v_hint
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           and (select c.max_running is null from taskq.campaign c where c.campaign_id = p_campaign)
         order by s.campaign_id, (-s.priority), s.first_id
         limit 1
           for no key update skip locked;
        if v_hint is null then
            return null;
        end if;
    elsif v_hint[4] = 1 or v_hint[6] = 0 then
        return null;
    elsif v_hint[7] is not null then
        return v_hint;
    elsif (select c.max_running from taskq.campaign c where c.campaign_id = p_campaign) is not null then
        return null;
    end if;
    select (select array[-w.priority, w.task_id]
              from taskq.task w
             where w.campaign_id = p_campaign
               and w.status = 'waiting'
               and w.avoids is null
               and ((-w.priority), w.task_id) > (v_hint[1], v_hint[2])
             order by w.campaign_id, (-w.priority), w.task_id
             limit 1),
           (select true
              from taskq.task w
             where not v_fresh
               and w.campaign_id = p_campaign
               and w.status = 'waiting'
               and w.avoids is not null
             limit 1)
      into v_row, v_again;
    if v_row < v_hint[5:6] or v_again then
        return null;
    end if;
    v_hint[7:8] := coalesce(v_row, '{32768,0}');
    if v_fresh then
        v_setting := taskq.keep_position(p_campaign, v_hint);
    end if;
    return v_hint;
end
$$;
