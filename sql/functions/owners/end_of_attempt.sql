-- end_of_attempt(attempt, sign): one ended attempt for add_ends(); sign: 1, or -1 to take it away. A part of what changes
-- or removes ended attempts; not for clients.
--
-- Index: campaign_pkey.
-- @plan by-one-key
create or replace function taskq.end_of_attempt(p_attempt taskq.attempt, p_sign integer)
returns taskq.ends
language plpgsql stable
as $$
declare
    v_field constant text := (
        select taskq.best_field(c.best) from taskq.campaign c where c.campaign_id = p_attempt.campaign_id);
    v_number constant double precision := taskq.ranking_number(p_attempt.outcome, p_attempt.result, v_field);
    v_ends taskq.ends;
begin
    v_ends.campaign_id := p_attempt.campaign_id;
    v_ends.session_id := p_attempt.session_id;
    v_ends.since := taskq.ten_minutes(p_attempt.ended_at);
    v_ends.outcome := taskq.kind_of_end(p_attempt.outcome, p_attempt.refused);
    v_ends.sort := taskq.sort_of_end(p_attempt.outcome, p_attempt.error_class, p_attempt.result, v_field);
    v_ends.attempts := p_sign;
    v_ends.run_ms := taskq.used_ms(p_attempt.phases, p_attempt.claimed_at, p_attempt.ended_at);
    v_ends.logs := p_sign * taskq.log_s(v_ends.run_ms);
    v_ends.squares := p_sign * taskq.log_s(v_ends.run_ms) ^ 2;
    v_ends.run_ms := p_sign * v_ends.run_ms;
    v_ends.numbers := case when v_number is null then 0 else p_sign end;
    v_ends.number_sum := p_sign * coalesce(v_number, 0);
    v_ends.number_squares := p_sign * coalesce(v_number ^ 2, 0);
    if p_sign > 0 then
        v_ends.first_task := p_attempt.task_id;
        v_ends.last_task := p_attempt.task_id;
        v_ends.first_at := p_attempt.ended_at;
        v_ends.last_at := p_attempt.ended_at;
    end if;
    return v_ends;
end
$$;
