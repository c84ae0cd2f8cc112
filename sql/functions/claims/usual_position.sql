-- usual_position(campaign, hint, next): adds to a position hint, see hint(), up to which task of its span no row comes
-- before the span's tasks (clear_to); null: rows come before them, and take() must look. A part of exchange_one() and
-- take_each(); not for clients.
--
-- hint: either a fresh one that names a span, and says that pick_again() has found nothing; the call keeps it. Or a new
-- one; then the call also looks for waiting tasks that have failed before, since take() must find these. next: the next
-- task of the span, if it is known.
--
-- Index: task_waiting, task_waiting_again. One statement: each condition outside it would cost as much as two within.
create or replace function taskq.usual_position(p_campaign bigint, p_hint bigint[], p_next bigint default 0)
returns bigint[]
language plpgsql strict
as $$
declare
    v_setting text;
    v_hint bigint[];
begin
    select p_hint || f.below into v_hint
      from (select coalesce((select case when (-w.priority) = p_hint[taskq.hint('span_rank')]
                                         then w.task_id else 0 end
                               from taskq.task w
                              where w.campaign_id = p_campaign
                                and w.status = 'waiting'
                                and w.avoids is null
                                and ((-w.priority), w.task_id)
                                    > (p_hint[taskq.hint('row_rank')], p_hint[taskq.hint('row')])
                                and (-w.priority) <= p_hint[taskq.hint('span_rank')]
                              order by w.campaign_id, (-w.priority), w.task_id
                              limit 1), 9223372036854775807) as below
            offset 0) f
     where f.below > greatest(p_next, p_hint[taskq.hint('span')])
       and (p_hint[taskq.hint('until')] > 0
            or (select true
                  from taskq.task w
                 where w.campaign_id = p_campaign
                   and w.status = 'waiting'
                   and w.avoids is not null
                 limit 1) is null);
    if v_hint[taskq.hint('until')] > 0 then
        v_setting := taskq.keep_position(p_campaign, v_hint);
    end if;
    return v_hint;
end
$$;
