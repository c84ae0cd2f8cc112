select hedged, running, longest from taskq.hedges(%(path)s, %(below)s, %(most)s)
