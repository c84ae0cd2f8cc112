select taskq.create_pilot(
    %(pilot)s, %(path)s, %(driver)s, %(settings)s::jsonb, %(replace)s) as added
