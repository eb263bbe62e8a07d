"""Version of grain-arrayrecord, read by the build and by the package."""

__version__ = "1.0.0"
