-- Settings of this connection, by name.
select pg_catalog.json_object_agg(w.name, pg_catalog.current_setting(w.name)) as settings
  from pg_catalog.unnest(%(names)s::pg_catalog.text[]) as w (name)
