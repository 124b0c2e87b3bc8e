"""Benchmarks of one piece alone."""
