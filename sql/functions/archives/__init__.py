"""Archives: of ended campaigns: begun, read, restored."""
