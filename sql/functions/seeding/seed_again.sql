-- seed_again(campaign, tasks, on_conflict, named): compares tasks under known keys with what is stored,
-- within a chunk of seeding; see seed_begin().
--
-- on_conflict: for keys that are stored with another payload: 'skip': adds nothing for them; 'keep-both':
--     each payload once, under the next of key#2, key#3 ... that is free; anything else, and a key that is
--     too long for a number: error TQ422, whose detail is {"conflicts", "too_long", "named"} as JSON. The
--     others are known and add nothing.
-- Result: conflicts: how many; for 'keep-both' these were added. named: for at most `named` of them the
--     place, the key, and pieces of both payloads (stored, offered) that show where they differ.
--
-- Locks: that of seed_begin() must be held. Index: spec_key_key.
-- @roles owner
create or replace function taskq.seed_again(
    p_campaign bigint, p_tasks jsonb, p_on_conflict text, p_named integer,
    out conflicts integer, out named jsonb)
language plpgsql
as $$
declare
    v_keep constant boolean := coalesce(p_on_conflict = 'keep-both', false);
    v_too_long boolean;
    v_added integer;
begin
    select count(*),
           coalesce(jsonb_agg(jsonb_build_object('place', c.place, 'key', c.key,
                                                 'stored', d.one, 'offered', d.other)
                              order by c.place) filter (where c.rank <= p_named), '[]'),
           coalesce(bool_or(v_keep and length(c.key || '#' || c.number) > 255), false)
      into conflicts, named, v_too_long
      from (
          select c.*, row_number() over (order by c.place) as rank
            from taskq.seed_conflicts(p_campaign, p_tasks) c
           where c.number is not null
              or not v_keep
      ) c
      left join lateral taskq.differing(
                    case when c.rank <= p_named then c.stored::text end,
                    case when c.rank <= p_named then c.payload::text end) d on true;
    if conflicts = 0 or p_on_conflict = 'skip' then
        return;
    end if;
    if v_too_long or not v_keep then
        raise exception '% of these tasks have a key that is stored with another payload%, as %: '
                        'stored is %, not %',
            conflicts, case when v_too_long then ', and that is too long for a number' else '' end,
            named -> 0 ->> 'key', named -> 0 ->> 'stored', named -> 0 ->> 'offered'
            using errcode = 'TQ422',
                  detail = jsonb_build_object('conflicts', conflicts, 'too_long', v_too_long,
                                              'named', named);
    end if;
    -- A number above a free one may be taken by a key that was seeded with it: then the next round finds another.
    conflicts := 0;
    loop
        insert into taskq.spec (campaign_id, priority, key, payload)
        select p_campaign, coalesce(c.priority, 0), c.key || '#' || c.number, c.payload
          from taskq.seed_conflicts(p_campaign, p_tasks) c
         where c.number is not null
         order by c.place
        on conflict (campaign_id, key) do nothing;
        get diagnostics v_added = row_count;
        exit when v_added = 0;
        conflicts := conflicts + v_added;
    end loop;
end
$$;
