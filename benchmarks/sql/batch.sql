with c as materialized (
    select id from public.bare where status = 0 order by id limit 100 for update skip locked
), u as (
    update public.bare t set status = 1, owner = :client_id, claimed_at = now()
      from c where t.id = c.id returning t.id
)
select array_agg(id)::text as ids from u \gset
update public.bare set status = 2, finished_at = now(), result = '{"score": -9.1}'
 where id = any(:ids::text::bigint[]) and status = 1 and owner = :client_id;
