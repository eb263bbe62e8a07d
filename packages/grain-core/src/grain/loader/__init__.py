"""DataLoader: a source, a sampler and a list of transformations, built on `dataset/`."""
