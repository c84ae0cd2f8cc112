-- forget_progress(): removes the progress of attempts that have ended or no longer report, and followers that
-- have gone. A part of keep(); not for clients.
--
-- Locks: the rows that go, skipping locked ones. Index: none, both tables are small: progress has a row for each
-- attempt that has reported within a few minutes.
create or replace function taskq.forget_progress()
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    delete from taskq.progress
     where ctid = any (array(
               select p.ctid from taskq.progress p where p.until < v_now for update skip locked));
    delete from taskq.followed
     where ctid = any (array(
               select f.ctid
                 from taskq.followed f
                where f.asked_at < v_now - interval '30 s'
                  for update skip locked));
end
$$;
