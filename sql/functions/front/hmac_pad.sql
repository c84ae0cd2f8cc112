-- hmac_pad(secret, byte): the key of HMAC (RFC 2104) with a block of 64 bytes: the secret, at most that
-- long, filled up with zeros, each byte xor `byte` (0x36 inside, 0x5c outside). PostgreSQL has SHA-256
-- without an extension, but no HMAC. A part of lease_ahead(); not for clients.
create or replace function taskq.hmac_pad(p_secret bytea, p_byte integer)
returns bytea
language sql immutable
as $$
    select string_agg(
               set_byte(decode('00', 'hex'), 0,
                        p_byte # case when i < length(p_secret) then get_byte(p_secret, i) else 0 end),
               ''::bytea order by i)
      from generate_series(0, 63) i
$$;
