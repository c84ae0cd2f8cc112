-- The first statement of a transaction in which nothing is written, and in which all statements see the
-- same moment.
set transaction isolation level repeatable read, read only
