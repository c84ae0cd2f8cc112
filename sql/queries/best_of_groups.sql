select tasks, ranks, groups, large, large_groups, seen, ranked, last
  from taskq.best_of_groups(
           %(campaign)s, %(part)s, %(field)s, %(ascending)s, %(group_part)s, %(group_field)s, %(inline)s,
           %(after)s, %(scan)s)
