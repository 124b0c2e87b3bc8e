"""One delivery attempt over HTTP: the address, the connection, the signed request, the response."""
