select acting, lost, promoted, folded from taskq.keep(%(holder)s::uuid, %(term_s)s)
