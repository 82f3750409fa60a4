package org.testcontainers.containers;

public class GenericContainer<T extends GenericContainer<T>> {
    public GenericContainer(String image) {}
    public T withFileSystemBind(String host, String path, BindMode mode) { return null; }
    public T withEnv(String name, String value) { return null; }
    public T withCommand(String... words) { return null; }
    public T withExposedPorts(Integer... ports) { return null; }
    public T waitingFor(org.testcontainers.containers.wait.strategy.WaitStrategy strategy) { return null; }
    public void setPortBindings(java.util.List<String> bindings) {}
    public void start() {}
    public String getHost() { return null; }
    public Integer getMappedPort(int port) { return null; }
}
