select acting, lost, promoted, folded, held, paused, suspects
  from taskq.keep(%(holder)s::uuid, %(term_s)s)
