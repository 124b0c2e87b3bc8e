"""The rules of webhooks that the API and the dispatcher share: addresses, networks, signatures, outcomes."""
