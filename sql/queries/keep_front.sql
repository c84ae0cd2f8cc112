select acting, epoch, closed, overtaken
  from taskq.keep_front(%(holder)s::uuid, %(term_s)s, %(stocked)s::jsonb, %(look)s)
