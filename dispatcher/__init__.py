"""The daemon that sends signed webhooks: it claims due deliveries, posts them and settles them."""
