-- The first statement of a read-only transaction in which all statements see the same snapshot.
set transaction isolation level repeatable read, read only
