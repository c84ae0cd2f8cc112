r"""The gateway: the queue over HTTP, for agents that have no connection to PostgreSQL.

    agents --HTTPS--> http/ --> app --> service, exchanges --> Batcher --> PostgreSQL
                                                         \-> HeartbeatBatcher, LongPoll, blobs

`app` has an endpoint for each request, `service` and `exchanges` do the work without HTTP. A
gateway keeps only caches in memory: any number of gateways may serve one queue, and a gateway that
dies loses nothing.
"""
