-- Gateways: who serves agents over HTTP now, for people to look at.
--
-- holder: drawn by the process. name: where it is, for people. sessions: those heard there lately. per_s:
-- exchanges a second since the word before. front: whether it serves claims from the front; null: it has none.
create table taskq.gateway (
    holder uuid not null,
    name text not null,
    release text not null,
    sessions integer not null,
    per_s double precision not null,
    front boolean,
    seen_at timestamptz not null,
    constraint gateway_pkey primary key (holder)
) with (fillfactor = 50);
