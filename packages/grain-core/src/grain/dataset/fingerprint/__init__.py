"""What a pipeline does, in words: kept with a checkpoint, and compared when it is restored."""
