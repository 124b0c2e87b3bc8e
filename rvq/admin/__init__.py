"""What `rvq admin` does: `actions` ask the API with the admin key, `ping` sends a webhook itself."""
