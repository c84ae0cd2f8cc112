select acting, lost, promoted, folded, held, paused, suspects, hedged
  from taskq.keep(%(holder)s::uuid, %(term_s)s)
