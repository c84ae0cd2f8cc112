"""Front: tasks leased ahead into Redis lists."""
