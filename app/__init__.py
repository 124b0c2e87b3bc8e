"""RVQ: the API, its settings and its command line."""
