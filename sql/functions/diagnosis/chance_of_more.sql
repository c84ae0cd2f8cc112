-- chance_of_more(failed, tried, mean, variance): the probability of `failed` or more among `tried` under the
-- beta-binomial distribution of this mean and variance; a little too large if `tried` is above 1,000; above 0.01 the
-- result is not exact. A part of judge_hosts(); not for clients.
create or replace function taskq.chance_of_more(
    p_failed double precision,
    p_tried double precision,
    p_mean double precision,
    p_variance double precision
)
returns double precision
language plpgsql immutable
as $$
declare
    v_share constant double precision := p_mean / p_tried;
    -- How alike attempts of one host are, from independent ones to all alike.
    v_alike constant double precision := least(0.999, greatest(0.000001,
        case when p_tried > 1
             then (p_variance / (p_mean * (1 - v_share)) - 1) / (p_tried - 1) else 0 end));
    v_a constant double precision := v_share * (1 / v_alike - 1);
    v_b constant double precision := (1 - v_share) * (1 / v_alike - 1);
    v_tried constant integer := least(p_tried, 1000);
    v_failed constant integer := floor(p_failed * v_tried / p_tried);
    v_log double precision := 0;
    v_sum double precision := 0;
begin
    for i in 0 .. v_tried - 1 loop
        v_log := v_log + ln((v_a + i) / (v_a + v_b + i));
    end loop;
    -- Added up from the least probable number on.
    for i in reverse v_tried .. v_failed loop
        v_sum := v_sum + case when v_log > -600 then exp(v_log) else 0 end;
        exit when v_sum > 0.01 or i = 0;
        v_log := v_log + ln(i / (v_tried - i + 1.0) * (v_b + v_tried - i) / (v_a + i - 1));
    end loop;
    return v_sum;
end
$$;
