-- total(n): the sum of bigints as a bigint; 0 without any. sum() would make numerics, at twice the cost where
-- thousands of counts are added up.
create or replace aggregate taskq.total(bigint) (
    sfunc = int8pl,
    stype = bigint,
    initcond = '0'
);
