r"""The gateway: the queue over HTTP, for agents that can reach nothing else.

    agents --HTTPS--> server (uvicorn) --> shortcut --> service --> Gatherer --> PostgreSQL
                                      \-> app (ASGI) -/        \-> Beats, Waker, blobs

`service` is what the gateway does, without HTTP. `app` serves all of it by ASGI; `shortcut` takes
the one request of which there are thousands a second, the exchange, past ASGI. Nothing here is
kept but in memory and for speed: any number of gateways may serve one queue, and one that dies
takes nothing with it.
"""
