-- seed_within(campaign, low, high): whether the campaign has keys from `low` to `high`, in the order of their
-- bytes.
--
-- If not, seed_known() need not look for each key of a chunk with this first and last key. This is so in an
-- empty campaign, and where keys ascend, as identifiers in libraries mostly do.
--
-- Index: spec_key_key.
-- @roles owner
-- @plan generic by-one-key
create or replace function taskq.seed_within(p_campaign bigint, p_low text, p_high text)
returns boolean
language plpgsql stable
set enable_sort = off
as $$
begin
    return coalesce((
        select s.key <= p_high
          from taskq.spec s
         where s.campaign_id = p_campaign
           and s.key >= p_low
         order by s.campaign_id, s.key
         limit 1), false);
end
$$;
