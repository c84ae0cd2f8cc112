-- watched_paths(): the campaigns at which keepers look: the root; those of notification rules, with the events that
-- these name; and those of managers' tokens, whose holders see what is wrong there and nothing else of the queue: 20 at
-- most, those of the latest tokens.
create or replace function taskq.watched_paths()
returns table (path text, whole boolean, events text[])
language sql stable
as $$
    select w.path, w.whole, array_remove(array_agg(distinct w.event), null)
      from (
          select '/', true, null
           union all
          select r.path, true, e.event from taskq.notify_rule r cross join lateral unnest(r.events) as e (event)
           union all
          (select p.path, false, null
             from taskq.token t
            cross join lateral unnest(t.paths) as p (path)
            where t.kind <> 'site'
              and t.revoked_at is null
              and t.expires_at > clock_timestamp()
              and p.path <> '/'
            group by p.path
            order by max(t.created_at) desc, p.path
            limit 20)
      ) w (path, whole, event)
     group by w.path, w.whole
$$;
