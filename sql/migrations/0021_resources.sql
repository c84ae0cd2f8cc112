-- What one task of a campaign needs, and what campaigns so require of agents.
--
-- cores, gpus: of those of a slot; null: it asks for none of its own. memory: bytes that an attempt may
-- occupy; further ones for a task that has run out of memory so often. null: no limit.
-- tags: what people require. requires: these and what follows from the resources; claims look at it alone.

alter table taskq.campaign rename column requires to tags;

alter table taskq.campaign
    add column cores integer,
    add column gpus integer,
    add column memory bigint[],
    add constraint campaign_cores_range check (cores between 1 and 4096),
    add constraint campaign_gpus_range check (gpus between 1 and 64),
    add constraint campaign_memory_range check (
        cardinality(memory) between 1 and 8
        and 1 <= all (memory) and 1125899906842624 >= all (memory)),
    add column requires text[] not null generated always as (
        tags
        || case when cores is null then '{}'::text[] else array['cores>=' || cores::text] end
        || case when memory is null then '{}'::text[]
                else array['mem>=' || trim_scale(round(memory[1] / 1073741824.0, 3))::text] end
        || case when gpus is null then '{}'::text[] else array['gpus>=' || gpus::text] end
    ) stored;
