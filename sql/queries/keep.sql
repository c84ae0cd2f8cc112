select acting, lost, promoted, folded, held, paused
  from taskq.keep(%(holder)s::uuid, %(term_s)s)
