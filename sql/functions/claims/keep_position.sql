-- keep_position(campaign, hint): keeps a connection's position hint, see hint(), and lets a new one expire. A part of
-- pick() and usual_position(), exchange_one() and take_each(); not for clients.
--
-- Result: the setting. Called by assignment: `perform` would be a statement to set up.
create or replace function taskq.keep_position(p_campaign bigint, p_hint bigint[])
returns text
language plpgsql
as $$
declare
    v_now_us constant bigint := date_part('epoch', clock_timestamp()) * 1000000;
    v_until constant bigint := p_hint[taskq.hint('until')];
begin
    if v_until < 0 then
        p_hint[taskq.hint('until')] := v_now_us + least(5000000, greatest(500000, 50 * (v_now_us + v_until)));
    end if;
    return set_config('taskq.position_' || p_campaign, p_hint::text, false);
end
$$;
