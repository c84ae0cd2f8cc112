"""The bare table that benchmarks compare with."""
