"""HTTP transport to gateways: JSON over HTTPS on kept connections, standard library only.

The entry point is `transport`; it implements the protocol `taskq_agent.transport`.
"""
