"""Prelaunch: review of GPU code before it runs."""

__version__ = "0.1.0"
