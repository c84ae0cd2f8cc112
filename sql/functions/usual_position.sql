-- usual_position(campaign, hint): adds to a position hint, see pick(), the first row that waits after it; null: rows
-- come before the tasks of the hint's span, and take() must look. A part of exchange_one() and take_each(); not for
-- clients.
--
-- hint: either a fresh one of pick() that names a span, and says that pick_again() has found nothing; the call keeps
-- it. Or one that begins at the first span, with the span's next task as its seventh element; then the call also
-- looks for waiting tasks that have failed before, since take() must find these.
--
-- Index: task_waiting, task_waiting_again. One statement: each condition outside it would cost as much as two within.
create or replace function taskq.usual_position(p_campaign bigint, p_hint bigint[])
returns bigint[]
language plpgsql strict
as $$
declare
    v_setting text;
    v_hint bigint[];
begin
    select p_hint[1:6] || f.below into v_hint
      from (select coalesce((select case when (-w.priority) = p_hint[5] then w.task_id else 0 end
                               from taskq.task w
                              where w.campaign_id = p_campaign
                                and w.status = 'waiting'
                                and w.avoids is null
                                and ((-w.priority), w.task_id) > (p_hint[1], p_hint[2])
                                and (-w.priority) <= p_hint[5]
                              order by w.campaign_id, (-w.priority), w.task_id
                              limit 1), 9223372036854775807) as below
            offset 0) f
     where f.below > coalesce(p_hint[7], p_hint[6])
       and (p_hint[3] > 0
            or (select true
                  from taskq.task w
                 where w.campaign_id = p_campaign
                   and w.status = 'waiting'
                   and w.avoids is not null
                 limit 1) is null);
    if v_hint[3] > 0 then
        v_setting := taskq.keep_position(p_campaign, v_hint);
    end if;
    return v_hint;
end
$$;
