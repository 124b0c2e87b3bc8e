"""The dispatcher, against real sockets."""
