"""Capacity planning: what a number of agents asks of a server, and a short measurement of one.

`capacity` computes the load from the costs of a server; `trial` measures these in a scratch
database, and checks the model with them.
"""
