"""Archives of ended campaigns: written to a folder, verified, restored."""
