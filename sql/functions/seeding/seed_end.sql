-- seed_end(campaign, above, largest): makes the specs of this chunk tasks that can be claimed.
--
-- above: what seed_begin() returned. largest: the most bytes that PostgreSQL writes for one of their payloads.
-- Result: how many tasks.
-- Error TQ409: they would exceed the quota of waiting tasks of the campaign's owner.
--
-- Locks: with such a quota, an advisory lock for the owner until the transaction ends. Index: spec_pkey,
-- quota_pkey. Chunks of one campaign follow each other, so that what lies above the mark belongs to this
-- transaction.
-- @roles owner
create or replace function taskq.seed_end(p_campaign bigint, p_above bigint, p_largest integer)
returns integer
language plpgsql
as $$
declare
    v_many constant integer := 1000;
    v_seeded constant integer := taskq.pack(p_campaign, p_above);
    v_owner text;
    v_most bigint;
    v_waiting bigint;
    v_seeding timestamptz;
begin
    if v_seeded > 0 then
        select q.owner, q.max_waiting into v_owner, v_most
          from taskq.campaign c
          join taskq.quota q on q.owner = c.owner
         where c.campaign_id = p_campaign;
        if v_most is not null then
            perform pg_advisory_xact_lock(-2, hashtext(v_owner));
            select o.waiting + o.delayed into v_waiting from taskq.tasks_of_owner(v_owner) o;
            if v_waiting + v_seeded > v_most then
                raise exception 'the quota of % allows % waiting tasks; % wait, so there is no room for % more. '
                    'Seed the same again later, or ask an operator for more (taskq owner quota)',
                    v_owner, v_most, v_waiting, v_seeded
                    using errcode = 'TQ409';
            end if;
        end if;
        insert into taskq.delta (campaign_id, waiting) values (p_campaign, v_seeded);
    end if;
    -- A chunk of fewer tasks is mostly the last one.
    v_seeding := case when v_seeded >= v_many then clock_timestamp() else '-infinity' end;
    update taskq.campaign c
       set payload_bytes = greatest(c.payload_bytes, least(p_largest, 65536)),
           seeded_at = v_seeding
     where c.campaign_id = p_campaign
       and (c.payload_bytes < least(p_largest, 65536)
            or c.seeded_at < v_seeding - interval '5 s'
            or c.seeded_at > v_seeding);
    return v_seeded;
end
$$;
