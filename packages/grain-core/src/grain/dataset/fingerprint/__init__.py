"""Fingerprints: the text form of a pipeline, stored with a checkpoint and compared on restore."""
