"""How the agent speaks with gateways: JSON over HTTPS on kept connections, standard library only.

`transport` is the door; it has the calls of `taskq_agent.transport`.
"""
