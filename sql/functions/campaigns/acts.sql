-- acts(path, verbs, most): who did what at a campaign, below it, or above it, the latest first; see note_act().
--
-- verbs: only these; null: all. path: of the campaign at which it was done; it may be removed since. who: a login, a
--     token, or retention. what: in short. began_at, ended_at: of the first and the last of its calls. tasks: how many it
--     moved; of a removal, an archive or a restore, how many there were. Of a campaign above those of the caller's token
--     there are only the acts that open and close it, without who, what and numbers.
-- Reads the acts at and below the path, which are bounded, see thin_acts(). Index: act_pkey, act_path.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan custom no-jit
create or replace function taskq.acts(p_path text, p_verbs text[], p_most integer)
returns table (
    path text,
    verb text,
    who text,
    what text[],
    began_at timestamptz,
    ended_at timestamptz,
    calls integer,
    tasks bigint
)
language plpgsql stable
as $$
begin
    return query
        select f.path, f.verb, f.who, f.what, f.began_at, f.ended_at, f.calls, f.tasks
          from (
              (select a.act_id, a.path, a.verb, a.who, a.what, a.began_at, a.ended_at, a.calls, a.tasks
                 from taskq.act a
                where (p_path = '/'
                       or a.path = p_path
                       or a.path > p_path || '/' and a.path < p_path || '0')
                  and (p_verbs is null or a.verb = any (p_verbs))
                order by a.act_id desc
                limit p_most)
               union all
              (select a.act_id, a.path, a.verb, k.who, k.what, a.began_at, a.ended_at, k.calls, k.tasks
                 from generate_series(1, length(p_path) - 1) as n (place)
                 join taskq.act a on a.path = left(p_path, n.place)
                 left join lateral (select a.who, a.what, a.calls, a.tasks where taskq.token_covers(a.path)) k on true
                where (n.place = 1 or substr(p_path, n.place + 1, 1) = '/')
                  and (p_verbs is null or a.verb = any (p_verbs))
                  and (k.who is not null or a.verb in ('pause', 'resume', 'cancel', 'remove'))
                order by a.act_id desc
                limit p_most)
          ) f
         order by f.ended_at desc, f.act_id desc
         limit p_most;
end
$$;
