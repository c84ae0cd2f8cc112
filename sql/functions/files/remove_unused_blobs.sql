-- remove_unused_blobs(limit, age_s, dry_run): removes blobs that no input, argument, result, checkpoint or output
-- refers to, and blobs begun and never ended; the oldest first, and none from the last `age_s` seconds, since its
-- report may still be on the way.
--
-- Result: how many were removed; call it until that is 0. A call ends with the blob that completes a GiB. With dry_run it removes nothing, and
-- returns how many it would, up to the limit (null: all).
--
-- Reads all attempts and campaigns, once in a call: an index over the few results that are blobs
-- would cost each report something.
--
-- Locks: the rows of the blobs. A caller that puts one of them again meanwhile waits, and stores it again.
-- @roles operator
-- @gateway no
-- @act no: it removes what nothing refers to
create or replace function taskq.remove_unused_blobs(
    p_limit integer,
    p_age_s double precision,
    p_dry_run boolean default false)
returns integer
language plpgsql
as $$
declare
    v_blobs bigint[];
begin
    with input as materialized (
        select distinct i.digest
          from taskq.campaign c
         cross join lateral taskq.stored_inputs(c.campaign_id, c.inputs, c.keep_inputs) i
    ), reported as materialized (
        select distinct a.result -> 'taskq_blob' ->> 'digest' as digest
          from taskq.attempt a
         where a.result ? 'taskq_blob'
    ), pick as materialized (
        select b.blob_id, b.put_at, b.size
          from taskq.blob b
         where b.put_at < clock_timestamp() - make_interval(secs => p_age_s)
           and (not b.complete
                or (not exists (
                        select from taskq.checkpoint k where k.digest = encode(b.digest, 'hex'))
                    and not exists (
                        select from taskq.output o where o.digest = encode(b.digest, 'hex'))
                    and not exists (
                        select from taskq.argument g where g.digest = encode(b.digest, 'hex'))
                    and not exists (select from input i where i.digest = encode(b.digest, 'hex'))
                    and not exists (
                        select from reported r where r.digest = encode(b.digest, 'hex'))))
         order by b.put_at
         limit p_limit
           for update of b skip locked
    )
    select array(
               select k.blob_id
                 from (
                     select p.blob_id, sum(p.size) over (order by p.put_at, p.blob_id) - p.size as before
                       from pick p
                 ) k
                where p_dry_run
                   or k.before < 1073741824)
      into v_blobs;
    if p_dry_run then
        return cardinality(v_blobs);
    end if;
    delete from taskq.blob_part p where p.blob_id = any (v_blobs);
    delete from taskq.blob b where b.blob_id = any (v_blobs);
    return cardinality(v_blobs);
end
$$;
