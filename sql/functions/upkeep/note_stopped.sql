-- note_stopped(program, host, why): notes that a program that serves the queue has ended by an error, for people who do
-- not read its log.
--
-- program: its command. why: its last words; null: it runs, so that its note goes.
-- Any login or token may leave notes: 20 of its own, 1,000 in all; beyond that nothing is noted. The same program of a
-- host has one note, written every ten seconds at most. The keeper removes those that are older than a day.
--
-- Locks: the note. Index: stopped_pkey.
-- @roles serving submitter operator pilots
-- @gateway submitter
-- @repeat safe
-- @act no: a program says that it ended by an error
create or replace function taskq.note_stopped(p_program text, p_host text, p_why text)
returns void
language plpgsql
as $$
declare
    v_most_of_login constant integer := 20;
    v_most constant integer := 1000;
    v_now constant timestamptz := clock_timestamp();
    v_login constant text := left(taskq.caller(), 200);
    v_program constant text := left(p_program, 200);
    v_host constant text := left(p_host, 200);
begin
    if p_why is null then
        delete from taskq.stopped s
         where s.login = v_login
           and s.program = v_program
           and s.host = v_host;
        return;
    end if;
    update taskq.stopped s
       set why = left(p_why, 500),
           last_at = v_now,
           times = s.times + 1
     where s.login = v_login
       and s.program = v_program
       and s.host = v_host
       and s.last_at < v_now - interval '10 s';
    insert into taskq.stopped (login, program, host, why, first_at, last_at)
    select v_login, v_program, v_host, left(p_why, 500), v_now, v_now
     where (select count(*) from taskq.stopped s where s.login = v_login) < v_most_of_login
       and (select count(*) from taskq.stopped) < v_most
        on conflict on constraint stopped_pkey do nothing;
end
$$;
