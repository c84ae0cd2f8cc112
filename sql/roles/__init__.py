"""What the parts of roles may read, as grants to one login."""
