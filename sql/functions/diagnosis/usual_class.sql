-- usual_class(campaign, since): the commonest class of error of the attempts that failed since an instant,
-- with their number if known, such as 'timeout (95)'; null: none has a class. A part of pause_failing(), which pins
-- the settings; not for clients.
--
-- Reads 1,000 unsuccessful attempts of a class at most, those of the tasks seeded last, and of 100
-- classes. Where there are more, the number is not known. Index: attempt_unsuccessful.
create or replace function taskq.usual_class(p_campaign bigint, p_since timestamptz)
returns text
language plpgsql stable
as $$
declare
    v_most constant integer := 1000;
begin
    return (
        -- From each class to the next, however many attempts lie between them.
        with recursive class (error_class, ord) as (
            select min(a.error_class), 1
              from taskq.attempt a
             where a.campaign_id = p_campaign
               and a.outcome <> 'done'
             union all
            select (select min(a.error_class)
                      from taskq.attempt a
                     where a.campaign_id = p_campaign
                       and a.error_class > c.error_class
                       and a.outcome <> 'done'),
                   c.ord + 1
              from class c
             where c.error_class is not null
               and c.ord < 100
        )
        select left(c.error_class, 100) || case when n.seen < v_most then format(' (%s)', n.failed)
                                                else '' end
          from class c
         cross join lateral (
             select count(*) as seen,
                    count(*) filter (where a.outcome = 'failed' and a.ended_at >= p_since) as failed
               from (
                   select a.outcome, a.ended_at
                     from taskq.attempt a
                    where a.campaign_id = p_campaign
                      and a.error_class = c.error_class
                      and a.outcome <> 'done'
                    order by a.task_id desc
                    limit v_most
               ) a
         ) n
         where n.failed > 0
         order by n.failed desc, c.error_class
         limit 1);
end
$$;
