"""The SDK's version, in one place for the package metadata and the User-Agent."""

__version__ = "0.1.0"
