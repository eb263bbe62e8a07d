"""Who computes a pipeline: the consumer's thread, threads, or worker processes. Results never differ."""
