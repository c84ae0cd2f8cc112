"""Columns of each noun, once: commands, the full screen and pages draw them."""
