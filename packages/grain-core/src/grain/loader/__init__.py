"""DataLoader: a source, a sampler and a list of transformations, put together over `dataset/`."""
