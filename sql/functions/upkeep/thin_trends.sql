-- thin_trends(minute): deletes points of trends that are too close for their age, at a minute since 1970.
-- Called by record_trends().
--
-- Result: how many it deleted.
-- A point stays for three hours if it is the last of its minute, for two days if of its ten minutes, for thirty days
-- if of its two hours, for a year if of its day. While that makes more than 90,000 points, all of these times but the
-- year are halved; in the end, campaigns that have not moved for longest lose theirs. With new points until the next
-- call, that is less than 20 MB with index and dead rows.
--
-- Locks: the rows it deletes. Goes through the table. Index: trend_pkey.
-- @plan generic by-scan
create or replace function taskq.thin_trends(p_minute integer)
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 90000;
    v_year constant integer := 366 * 1440;
    v_part double precision := 1;
    v_deleted integer;
    v_total integer := 0;
    v_left bigint;
begin
    loop
        with graded as (
            select t.campaign_id, t.minute,
                   case when p_minute - t.minute <= 180 * v_part then 1
                        when p_minute - t.minute <= 2880 * v_part then 10
                        when p_minute - t.minute <= 43200 * v_part then 120
                        else 1440 end as grain
              from taskq.trend t
        ), placed as (
            select g.campaign_id, g.minute,
                   lead(g.minute / g.grain) over (partition by g.campaign_id order by g.minute)
                       = g.minute / g.grain
                   and lead(g.grain) over (partition by g.campaign_id order by g.minute) = g.grain
                       as followed
              from graded g
        ), gone as (
            delete from taskq.trend t
             using placed p
             where t.campaign_id = p.campaign_id
               and t.minute = p.minute
               and (p.followed or p.minute < p_minute - v_year)
         returning 1
        )
        select count(*) into v_deleted from gone;
        v_total := v_total + v_deleted;
        select count(*) into v_left from taskq.trend;
        v_part := v_part / 2;
        exit when v_left <= v_most or v_part < 0.02;
    end loop;

    if v_left > v_most then
        with series as (
            select t.campaign_id, max(t.minute) as last, count(*) as points
              from taskq.trend t
             group by t.campaign_id
        ), ranked as (
            select s.campaign_id,
                   sum(s.points) over (order by s.last desc, s.points desc, s.campaign_id) as so_far
              from series s
        ), gone as (
            delete from taskq.trend t
             using ranked r
             where t.campaign_id = r.campaign_id
               and r.so_far > v_most
         returning 1
        )
        select count(*) into v_deleted from gone;
        v_total := v_total + v_deleted;
    end if;
    return v_total;
end
$$;
