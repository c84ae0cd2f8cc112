"""Limits of data from outside."""

MAX_DIGITS = 350
MAX_READ_BYTES = 64 << 20
