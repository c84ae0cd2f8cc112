-- thin_acts(now): deletes acts that are older than 400 days; of more than 100,000 the oldest of the one who has most, so that
-- nobody makes the acts of others vanish. At most 5,000 rows of each. Called by the keeper.
--
-- Result: how many it deleted.
-- Locks: the rows that it deletes. Goes through the table. Index: act_pkey.
-- @plan generic by-scan
create or replace function taskq.thin_acts(p_now timestamptz default clock_timestamp())
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 100000;
    v_at_once constant integer := 5000;
    v_over integer;
    v_gone integer;
    v_total integer;
    v_one record;
begin
    delete from taskq.act a
     where a.act_id = any (array(select o.act_id from taskq.act o order by o.act_id limit v_at_once))
       and a.ended_at < p_now - interval '400 days';
    get diagnostics v_total = row_count;
    v_over := least((select count(*) from taskq.act) - v_most, v_at_once);
    while v_over > 0 loop
        select s.who, s.number - coalesce(lead(s.number) over (order by s.number desc), 0) as ahead into v_one
          from (select a.who, count(*) as number from taskq.act a group by a.who) s
         order by s.number desc
         limit 1;
        delete from taskq.act a
         where a.act_id = any (array(
                   select o.act_id
                     from taskq.act o
                    where o.who = v_one.who
                    order by o.act_id
                    limit least(v_over, greatest(v_one.ahead, 500))));
        get diagnostics v_gone = row_count;
        exit when v_gone = 0;
        v_over := v_over - v_gone;
        v_total := v_total + v_gone;
    end loop;
    return v_total;
end
$$;
