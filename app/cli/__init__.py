"""The `rvq` command: one module a sub-command in `commands/`, and what they share."""
