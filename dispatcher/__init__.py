"""The daemon that sends signed webhooks: claims due deliveries, posts them, settles them."""
