-- share_of_lost(losses, slots, last): how many tasks that were lost before an agent may have, if one of them
-- was lost this often: see pick_again(). A part of it; not for clients.
--
-- last: from this many losses on, one more may fail the task. Inlined into the calling statement.
create or replace function taskq.share_of_lost(p_losses smallint, p_slots integer, p_last integer)
returns integer
language sql immutable
as $$
    select case when p_losses >= p_last then 1 else greatest(1, p_slots >> p_losses::integer) end
$$;
