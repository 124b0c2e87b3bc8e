"""A whole RVQ on this machine: `stack` starts it, with `settings`, `credentials` and `folders` of its own."""
