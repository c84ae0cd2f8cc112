"""Definitions of campaigns and tasks as plain values that read no clock and no environment.

`spec` defines a campaign (handler, retries, limits), `params` and `tags` its parts, `model` the
basic values of all other modules: paths, seeds, limits.
"""
