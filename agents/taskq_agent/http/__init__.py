"""HTTP transport to gateways: JSON over HTTPS on kept connections, standard library only.

The entry point is `transport`, which implements the protocol `taskq_agent.transport`.
"""
