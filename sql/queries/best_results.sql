select tasks, ranks, large, seen, ranked, last
  from taskq.best_results(
           %(campaign)s, %(part)s, %(field)s, %(ascending)s, %(top)s, %(worst)s::numeric, %(inline)s,
           %(after)s, %(scan)s)
