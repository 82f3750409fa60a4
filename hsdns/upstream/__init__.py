"""DNS client for upstream servers: addresses, connections, health checks and queries.

Path: plugins/forward.py chooses an upstream and queries it; plugins/loop.py queries this server itself.  No other
package opens client sockets for DNS.
"""
