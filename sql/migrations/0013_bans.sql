-- Bans: hosts and sites that operators keep agents away from.
--
-- kind, name: the host or site, as agents name it. until: when the ban ends by itself; null: when it is
-- lifted. why: shown to agents and people. login: who has banned it. See functions/ban.sql, banned.sql.
--
-- Nothing that moves tasks reads it: a ban drains sessions and refuses new ones.
create table taskq.ban (
    kind text not null,
    name text collate "C" not null,
    why text not null,
    login text not null,
    banned_at timestamptz not null,
    until timestamptz,
    constraint ban_pkey primary key (kind, name),
    constraint ban_kind_known check (kind in ('host', 'site')),
    constraint ban_name_length check (length(name) between 1 and 200),
    constraint ban_why_length check (length(why) between 1 and 500)
);
