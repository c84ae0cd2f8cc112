"""What each role may do, as grants to one login."""
