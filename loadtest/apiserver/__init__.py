"""A Kubernetes API server for tests and benchmarks: in memory, in the test process, or as a process of its own."""
