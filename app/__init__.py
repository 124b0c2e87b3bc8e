"""RVQ in production: the HTTP API, and what the dispatcher shares with it."""
