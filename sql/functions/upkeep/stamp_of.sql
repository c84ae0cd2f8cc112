-- stamp_of(rounds, at): the stamp of a round of the keeper and an instant (seconds since 1970), which only this
-- database and its copies can make; see stamp(). Not for clients: it signs whatever it is asked.
create or replace function taskq.stamp_of(p_rounds bigint, p_at bigint)
returns text
language sql stable
as $$
    select s.words || '-' || left(encode(sha256(k.secret || s.words::bytea || k.secret), 'hex'), 16)
      from taskq.keeper k
     cross join (
         select lpad(p_rounds::text, 12, '0') || '-' || lpad(p_at::text, 10, '0') as words
     ) s
     where k.only_one
$$;
