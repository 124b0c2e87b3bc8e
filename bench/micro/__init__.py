"""Benchmarks of one piece alone: `overhead` of the API over its SQL, `post_cpu` of a delivery."""
