"""HTTP: requests, the pages of the server, and DNS over HTTPS."""
