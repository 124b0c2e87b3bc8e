"""A whole RVQ on this machine: its processes, folders, and keys."""
