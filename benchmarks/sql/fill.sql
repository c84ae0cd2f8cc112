-- Waiting rows with the payload of the benchmark, about 100 bytes.
insert into public.bare (payload)
select jsonb_build_object(
           'ligand', 'ZINC' || lpad(n::text, 8, '0'), 'receptor', '1sme', 'seed', 7,
           'library', 'lead-like, in stock, at pH 7')
  from generate_series(1, %(rows)s) n
