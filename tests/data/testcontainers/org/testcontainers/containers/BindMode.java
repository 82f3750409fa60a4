package org.testcontainers.containers;

public enum BindMode { READ_ONLY, READ_WRITE }
