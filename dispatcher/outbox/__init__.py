"""Deliveries from claim to record: claimed, attempted in threads, kept count of, and settled."""
