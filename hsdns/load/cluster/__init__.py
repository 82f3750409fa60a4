"""The cluster that a load test changes or serves, and the names that it asks for."""
