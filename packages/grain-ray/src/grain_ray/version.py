"""Version of grain-ray, read by the build and by the package."""

__version__ = "1.0.0"
