-- pg_temp.left_over(): tables with rows of campaigns that are gone, and how many rows. Those of usage, stones and sums
-- keep their rows on purpose, and that of sessions until `taskq db clean`.
create function pg_temp.left_over()
returns table (name text, rows bigint)
language plpgsql
as $$
begin
    for name in
        select c.relname
          from pg_class c
          join pg_attribute a on a.attrelid = c.oid and a.attname = 'campaign_id'
         where c.relkind = 'r'
           and c.relnamespace = 'taskq'::regnamespace
           and c.relname not in ('usage', 'session', 'stone', 'removed_sum', 'end_sum')
         order by c.relname
    loop
        execute format(
            'select count(*) from taskq.%%I t '
            'where not exists (select from taskq.campaign c where c.campaign_id = t.campaign_id)', name)
           into rows;
        if rows > 0 then
            return next;
        end if;
    end loop;
end
$$
