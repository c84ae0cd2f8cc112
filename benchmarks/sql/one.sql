update public.bare set status = 1, owner = :client_id, claimed_at = now()
 where id = (select id from public.bare where status = 0 order by id limit 1 for update skip locked)
 returning id \gset
update public.bare set status = 2, finished_at = now(), result = '{"score": -9.1}'
 where id = :id and status = 1 and owner = :client_id;
