-- note_serving(): records when a standby has taken over from the primary. Called by the keeper before it
-- expires sessions.
--
-- Locks: the row of `serving`, after a promotion; else nothing is written.
create or replace function taskq.note_serving()
returns void
language plpgsql
as $$
begin
    update taskq.serving s
       set timeline = taskq.timeline(),
           since = clock_timestamp()
     where s.timeline <> taskq.timeline();
end
$$;
