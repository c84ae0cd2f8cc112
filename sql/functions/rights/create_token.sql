-- create_token(kind, name, hash, paths, lifetime_s, networks, max_uses, max_output_bytes, at_site): registers a token.
--
-- kind: `site` (opens sessions), or one for managers: `manager`, `submitter`, `pickler`. hash: the SHA-256 of
--     the token, which itself is never sent. paths: the campaigns that it permits, each with all below it.
--     networks, max_uses: of a site's token: networks from which sessions may be opened, and how many; empty or
--     null: any network, any number. max_output_bytes: of output files that its agents may have stored; null: 100
--     GiB. at_site: the site of its agents, whatever they report; null: the site that they report.
-- Result: the token's id.
-- Error TQ404: no such campaign. Error TQ409: a token of this name is not revoked.
-- @roles operator
-- @gateway no
-- @act token
create or replace function taskq.create_token(
    p_kind taskq.token_kind,
    p_name text,
    p_hash bytea,
    p_paths text[],
    p_lifetime_s double precision,
    p_networks cidr[] default '{}',
    p_max_uses integer default null,
    p_max_output_bytes bigint default null,
    p_at_site text default null
)
returns bigint
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_id bigint;
begin
    if (p_lifetime_s > 0 and p_lifetime_s <= 315360000) is not true then
        raise exception 'a token lives for up to ten years, not for % s', p_lifetime_s
            using errcode = 'TQ400';
    end if;
    perform taskq.campaign_id(p.path) from unnest(p_paths) as p (path);
    insert into taskq.token (
           kind, name, hash, paths, networks, max_uses, created_at, expires_at,
           max_output_bytes, at_site)
    values (p_kind, p_name, p_hash, p_paths, p_networks, p_max_uses, v_now,
            v_now + make_interval(secs => p_lifetime_s), coalesce(p_max_output_bytes, 107374182400),
            p_at_site)
    on conflict (name) where revoked_at is null do nothing
    returning token_id into v_id;
    if not found then
        raise exception 'there is a token %; revoke it, or choose another name', p_name
            using errcode = 'TQ409';
    end if;
    perform taskq.note_token(p_paths, array[p_name, p_kind::text, 'created']);
    return v_id;
end
$$;
