"""Files with the queries of clients: packets, dnstap and C-DNS, compressed or not."""
