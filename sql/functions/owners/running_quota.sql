-- running_quota(owner): how many tasks of an owner may run; null: any number; 0: none, since the quota of
-- bytes is used up. The column of this name in campaigns holds it. A part of set_quota() and others; not for
-- clients.
create or replace function taskq.running_quota(p_owner text)
returns integer
language plpgsql stable
as $$
begin
    return (
        select case when q.is_full then 0 else q.max_running end
          from taskq.quota q
         where q.owner = p_owner);
end
$$;
