-- note_serving(): records when another server has taken over: a standby from the primary, or one whose
-- timelines begin anew. Called by the keeper before it expires sessions.
--
-- Locks: the row of `serving`, after such a change; else nothing is written.
create or replace function taskq.note_serving()
returns void
language plpgsql
as $$
declare
    v_own constant bigint := taskq.wal_timeline();
begin
    update taskq.serving s
       set earlier = s.earlier + case when v_own < s.timeline then s.timeline else 0 end,
           timeline = v_own,
           since = clock_timestamp()
     where v_own not in (0, s.timeline);
end
$$;
