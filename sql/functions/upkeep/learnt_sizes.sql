-- learnt_sizes(peaks): the sizes of memory that follow from what attempts have used, see learn_memory(). Not for clients.
--
-- peaks: of each task, the most bytes that an attempt occupied.
-- Result: null below a hundred peaks. Else first what suffices for 95 % of them, then for all, each with a tenth
--     more, then twice and four times that, for tasks that need more than any before. Each size is rounded up to three
--     bits, so that it seldom changes, and is 64 MiB at least and 1 PiB at most.
create or replace function taskq.learnt_sizes(p_peaks bigint[])
returns bigint[]
language plpgsql immutable
as $$
declare
    v_few constant integer := 100;
    v_least constant numeric := 67108864;
    v_most constant numeric := 1125899906842624;
begin
    if coalesce(cardinality(p_peaks), 0) < v_few then
        return null;
    end if;
    return (
        select array_agg(distinct s.size order by s.size)
          from (
              select percentile_disc(0.95) within group (order by p.peak) as usual, max(p.peak) as largest
                from unnest(p_peaks) as p (peak)
          ) k
         cross join lateral (
              values (k.usual * 1.1), (k.largest * 1.1), (k.largest * 2.2), (k.largest * 4.4)) as w (bytes)
         cross join lateral (
              select least(v_most, greatest(v_least, w.bytes)) as bytes
         ) b
         cross join lateral (
              select 2::numeric ^ (floor(log(2, b.bytes)) - 3) as step
         ) r
         cross join lateral (
              select least(v_most, ceil(b.bytes / r.step) * r.step)::bigint as size
         ) s);
end
$$;
