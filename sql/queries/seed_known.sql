select key
  from taskq.seed_known(
           %(campaign)s,
           array(select json_array_elements_text(%(keys)s::json))) as key
