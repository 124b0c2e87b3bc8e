"""What `rvq admin` does, over HTTP with the admin key: `client` calls, `actions` are the sub-commands."""
