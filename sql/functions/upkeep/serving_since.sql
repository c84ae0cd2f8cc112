-- serving_since(): since when this server has been answering as the primary: from this instant silence
-- counts. Before it, agents could not be heard: the server was down, a standby, or suspended with its
-- machine.
--
-- A standby that is promoted may have been started long ago, and does not record when it was promoted. So
-- the keeper notes the timeline, see note_serving(); if it is not the one noted, the server has taken over at
-- this moment. If the server hides its timeline, its start must do. An instant far in the future is not
-- believed: the clock was wrong when it was noted.
create or replace function taskq.serving_since()
returns timestamptz
language plpgsql
as $$
declare
    v_own constant bigint := taskq.wal_timeline();
begin
    return (
        select greatest(
                   taskq.believed(pg_postmaster_start_time(), clock_timestamp()),
                   case when v_own in (0, s.timeline)
                        then taskq.believed(s.since, clock_timestamp())
                        else clock_timestamp() end)
          from taskq.serving s);
end
$$;
