"""The version of grain-tfds: the build reads it from here, and so does the package."""

__version__ = "1.0.0"
