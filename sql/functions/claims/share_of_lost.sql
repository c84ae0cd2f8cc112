-- share_of_lost(losses, slots, last, batch): how many tasks that were lost before an agent may have, if one of them
-- was lost this often: see pick_again(). A part of it; not for clients.
--
-- last: from this many losses on, one more may fail the task. batch: how many tasks start together in a slot: then
-- tasks that were lost once start like others, since most losses are the node's, and a quarter as many after each
-- further loss. Inlined into the calling statement.
create or replace function taskq.share_of_lost(
    p_losses smallint, p_slots integer, p_last integer, p_batch integer default 1)
returns integer
language sql immutable
as $$
    select case when p_batch > 1 then greatest(1, (p_slots * p_batch) >> (2 * least(p_losses - 1, 15)))
                when p_losses >= p_last then 1 else greatest(1, p_slots >> p_losses::integer) end
$$;
