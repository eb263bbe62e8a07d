"""The version of grain-core: the build reads it from here, and so does the package."""

__version__ = "1.0.0"
__version_info__ = (1, 0, 0)
