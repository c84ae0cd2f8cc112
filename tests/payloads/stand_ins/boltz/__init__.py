"""Stand-in for the package of Boltz-2: what `boltz predict` reads, writes, and how it fails."""
