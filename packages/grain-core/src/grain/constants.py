"""Names of the features that describe an element."""

INDEX = "_index"
"""Global index of the element; grows along the pipeline."""
RECORD_KEY = "_record_key"
"""Key of the record in the data source."""
EPOCH = "_epoch"
"""Epoch the element belongs to."""
DATASET_INDEX = "_dataset_index"
"""Index of the mixture component the element comes from."""
SEED = "_seed"
"""Seed for random transformations of the element."""
RECORD = "_record"
"""The record as it was read, before parsing."""

META_FEATURES = frozenset({INDEX, RECORD_KEY, EPOCH, DATASET_INDEX, SEED, RECORD})
