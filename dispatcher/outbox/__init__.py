"""Due deliveries on their way through this process: claimed, in flight, settled."""
