-- may_pickle(): whether the caller may have agents unpickle what it sends: functions by value, with their
-- arguments. Who may execute it, may: the role `pickler` is this right and nothing else.
--
-- A pickle executes what it says when it is read. So a handler with an archive, by whose digest and seal
-- agents know what they may read, is accepted from such logins and from the owner only.
-- @roles pickler
-- @gateway no
create or replace function taskq.may_pickle()
returns boolean
language sql stable
as $$
    select true
$$;
