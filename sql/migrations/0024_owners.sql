-- Owners of campaigns, and their quotas.
--
-- owner: the login or token that created the campaign; null: it is older than this, and nobody's.
-- running_limit: how many of its tasks may run, as its settings say; null: any number. running_quota: how
-- many of all tasks of its owner may, kept in step with the quota; null: any number; 0: the owner has used
-- up the quota of bytes. max_running: the smaller of both; claims look at it alone, so a campaign without
-- limits costs them nothing. See functions/room.sql.

-- Its result has columns more.
drop function if exists taskq.standing(text);

alter table taskq.campaign rename column max_running to running_limit;

alter table taskq.campaign
    add column owner text collate "C",
    add column running_quota integer,
    add column max_running integer
        generated always as (least(running_limit, running_quota)) stored,
    add constraint campaign_owner_length check (length(owner) between 1 and 100),
    add constraint campaign_running_quota_range check (running_quota between 0 and 1000000);

create index campaign_owner on taskq.campaign (owner) where owner is not null;

-- What an owner may use; null: any amount. max_running: tasks working at a time. max_waiting: tasks that wait
-- or are delayed. max_bytes: bytes stored, see functions/stored_bytes.sql; is_full: whether they were, when the
-- keeper last looked. weight: of the owner among the others, where they share. login: who has set it.
create table taskq.quota (
    owner text collate "C" not null,
    max_running integer,
    max_waiting bigint,
    max_bytes bigint,
    weight double precision not null default 1,
    is_full boolean not null default false,
    login text not null,
    set_at timestamptz not null,
    constraint quota_pkey primary key (owner),
    constraint quota_owner_length check (length(owner) between 1 and 100),
    constraint quota_max_running_range check (max_running between 1 and 1000000),
    constraint quota_max_waiting_range check (max_waiting between 0 and 1000000000000),
    constraint quota_max_bytes_range check (max_bytes between 1 and 1125899906842624),
    constraint quota_weight_range check (weight > 0 and weight <= 1000),
    constraint quota_full_of_bytes check (max_bytes is not null or not is_full)
);

-- by_owner: whether running tasks are shared out between owners first, then between their campaigns.
create table taskq.sharing (
    only_one boolean not null default true,
    by_owner boolean not null default false,
    constraint sharing_pkey primary key (only_one),
    constraint sharing_only_one check (only_one)
);
insert into taskq.sharing default values;
