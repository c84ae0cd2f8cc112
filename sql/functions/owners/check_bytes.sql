-- check_bytes(owner, more): raises TQ409 if the owner's quota has no room for so many more bytes. A part of
-- add_input() and add_argument(); not for clients.
--
-- Several callers at the same time may each find the last room. Index: quota_pkey; see stored_bytes().
create or replace function taskq.check_bytes(p_owner text, p_more bigint)
returns void
language plpgsql
as $$
declare
    v_most constant bigint := (select q.max_bytes from taskq.quota q where q.owner = p_owner);
    v_stored bigint;
begin
    if v_most is null or p_more <= 0 then
        return;
    end if;
    v_stored := taskq.stored_bytes(p_owner);
    if v_stored + p_more > v_most then
        raise exception 'the quota of % allows % bytes; % are stored, so there is no room for % more. Remove '
            'some, or ask an operator for more (taskq owner quota)', p_owner, v_most, v_stored, p_more
            using errcode = 'TQ409';
    end if;
end
$$;
