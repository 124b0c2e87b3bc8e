"""The command line: `rvq COMMAND`, and what starts a whole RVQ on this machine."""
