-- cores_of(offers): how many cores a session offers a slot; null: it does not say. Inlined into the calling statement.
create or replace function taskq.cores_of(p_offers text[])
returns integer
language sql immutable parallel safe
as $$
    select max(substr(o.tag, 7)::integer)
      from unnest(p_offers) as o (tag)
     where o.tag ~ '^cores=[1-9][0-9]{0,4}$'
$$;
