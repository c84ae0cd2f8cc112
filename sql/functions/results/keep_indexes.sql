-- keep_indexes(): takes results into the indexes that lack some, and removes the rows of dropped ones; for a
-- tenth of a second at most. An index that fails gives a warning and does not hold up the others. A part of
-- keep(); not for clients.
--
-- Locks: see take_in_results(). Index: result_index_pkey, result_rank_pkey, result_span_pkey.
-- @plan by-key
create or replace function taskq.keep_indexes()
returns void
language plpgsql
as $$
declare
    v_until constant timestamptz := clock_timestamp() + interval '100 ms';
    v_most constant integer := 2000;
    v_index taskq.result_index;
    v_complete boolean;
begin
    -- In any order, so that each has its turn.
    for v_index in select i.* from taskq.result_index i order by random() loop
        begin
            loop
                exit when clock_timestamp() > v_until;
                if v_index.dropped then
                    with gone as (
                        delete from taskq.result_rank r
                         where r.ctid = any (array(
                                   select r.ctid from taskq.result_rank r
                                    where r.index_id = v_index.index_id
                                    order by r.index_id, r.rank
                                    limit v_most))
                     returning 1
                    )
                    select count(*) = 0 into v_complete from gone;
                    if v_complete then
                        delete from taskq.result_span s where s.index_id = v_index.index_id;
                        delete from taskq.result_index i where i.index_id = v_index.index_id;
                    end if;
                else
                    exit when v_index.seen = taskq.done_count(v_index.campaign_id);
                    select t.complete or t.taken = 0 into v_complete
                      from taskq.take_in_results(v_index.index_id, v_most) t;
                end if;
                exit when v_complete;
            end loop;
        exception
            when others then  -- the others go on
                raise warning 'taskq: index % of results of campaign % could not be kept: %',
                    v_index.index_id, v_index.campaign_id, sqlerrm;
        end;
    end loop;
end
$$;
