select error_class, attempts from taskq.failure_classes(%(campaign)s)
