"""The page of a pipeline: graph, specs, timings and sample elements as HTML or as text."""
