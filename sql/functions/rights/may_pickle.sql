-- may_pickle(): whether the caller may have agents unpickle what it sends: functions by value, with their
-- arguments. A login may if it can execute this function: the role `pickler` is this right and nothing else.
--
-- Reading a pickle executes code. So only such logins and the owner may set a handler with an archive, whose
-- digest and seal tell agents what they may read.
-- @roles pickler
-- @gateway no
-- @act no: it reads
create or replace function taskq.may_pickle()
returns boolean
language sql stable
as $$
    select true
$$;
