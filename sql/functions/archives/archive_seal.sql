-- archive_seal(manifest): what proves that this database made an archive: HMAC-SHA-256 of its manifest's digest, in hex,
-- with the database's own secret. Index: archive_key_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
create or replace function taskq.archive_seal(p_manifest text)
returns text
language plpgsql stable
as $$
begin
    return (
        select encode(
                   sha256(taskq.hmac_pad(k.secret, 92)
                          || sha256(taskq.hmac_pad(k.secret, 54) || convert_to(p_manifest, 'UTF8'))),
                   'hex')
          from taskq.archive_key k);
end
$$;
