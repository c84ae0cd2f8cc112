-- learn_memory(): sets the memory of campaigns that learn it, from the peaks of their latest attempts; see
-- learnt_sizes(). A part of keep().
--
-- Result: how many campaigns got other sizes.
--
-- It looks at 50 campaigns with tasks that have ended and others that have not, drawn at random, and at the last 500
-- attempts of each that were done or ran out of memory; of these the peak says that the task needs at least that. Sizes
-- rise at once. They fall if a fifth or more would be saved, so that agents need not learn of small changes.
--
-- Locks: the rows of campaigns that change, skipping locked ones.
-- Index: campaign_learns, counter_pkey, attempt_pkey, campaign_pkey.
-- @plan generic by-key
create or replace function taskq.learn_memory()
returns integer
language plpgsql
as $$
declare
    v_campaigns constant integer := 50;
    v_attempts constant integer := 500;
    v_campaign bigint;
    v_sizes bigint[];
    v_changed integer := 0;
begin
    for v_campaign in
        select c.campaign_id
          from taskq.campaign c
         cross join lateral taskq.counter_of(c.campaign_id) n
         where c.memory_learns
           and n.done + n.failures > 0
           and n.waiting + n.delayed + n.working > 0
         order by random()
         limit v_campaigns
    loop
        v_sizes := taskq.learnt_sizes(array(
            select max((a.phases ->> 'peak_bytes')::numeric)::bigint
              from (
                  select a.task_id, a.phases, a.outcome, a.error_class
                    from taskq.attempt a
                   where a.campaign_id = v_campaign
                   order by a.campaign_id desc, a.task_id desc, a.attempt desc
                   limit v_attempts
              ) a
             where jsonb_typeof(a.phases -> 'peak_bytes') = 'number'
               and (a.outcome = 'done' or a.error_class = 'out-of-memory')
               and (a.phases ->> 'peak_bytes')::numeric between 1 and 1125899906842624
             group by a.task_id));
        continue when v_sizes is null;
        perform
           from taskq.campaign c
          where c.campaign_id = v_campaign
            and c.memory_learns
            and (c.memory is null
                 or v_sizes[1] > c.memory[1] or v_sizes[cardinality(v_sizes)] > c.memory[cardinality(c.memory)]
                 or v_sizes[1] < 0.8 * c.memory[1])
            for no key update skip locked;
        continue when not found;
        update taskq.campaign c
           set memory = v_sizes,
               revision = c.revision + 1
         where c.campaign_id = v_campaign;
        v_changed := v_changed + 1;
    end loop;
    return v_changed;
end
$$;
