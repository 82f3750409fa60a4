package io.github.hsdns.testcontainers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.github.dockerjava.api.model.ExposedPort;
import com.github.dockerjava.api.model.Ports;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.testcontainers.containers.BindMode;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/** hsdns, the DNS of a Kubernetes cluster: serves the manifests of a folder, and what becomes of them. */
public class HsdnsContainer extends GenericContainer<HsdnsContainer> {
    public static final String IMAGE = "ghcr.io/hsdns/hsdns:0.2.0.dev0";

    private static final ExposedPort UDP = ExposedPort.udp(53);
    private static final int CONTROL = 9160;
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String token = UUID.randomUUID().toString();

    public HsdnsContainer(Path manifests) {
        this(manifests, DockerImageName.parse(IMAGE));
    }

    public HsdnsContainer(Path manifests, DockerImageName image) {
        super(image);
        withFileSystemBind(manifests.toAbsolutePath().normalize().toString(), "/lab", BindMode.READ_ONLY);
        withCommand("serve", "-p", "53", "--control", "0.0.0.0:9160", "--source", "manifests", "/lab");
        withEnv("HSDNS_CONTROL_TOKEN", token);
        withExposedPorts(53, CONTROL);
        waitingFor(Wait.forHttp("/ready").forPort(CONTROL));
        // What is exposed is TCP alone.
        withCreateContainerCmdModifier(command -> {
            List<ExposedPort> exposed = new ArrayList<>(List.of(command.getExposedPorts()));
            exposed.add(UDP);
            command.withExposedPorts(exposed);
            Ports ports = command.getHostConfig().getPortBindings();
            ports.bind(UDP, Ports.Binding.empty());
            command.getHostConfig().withPortBindings(ports);
        });
    }

    /** The address and port of the server on this machine, over UDP. */
    public String dns() {
        Map<ExposedPort, Ports.Binding[]> bound = getContainerInfo().getNetworkSettings().getPorts().getBindings();
        return getHost() + ":" + bound.get(UDP)[0].getHostPortSpec();
    }

    /** The same over TCP, which has a port of its own. */
    public String dnsOverTcp() {
        return getHost() + ":" + getMappedPort(53);
    }

    /** Adds a rule, such as "drop type AAAA times 1"; the exception says what is wrong with it. */
    public Fault addFault(String rule) {
        return ask("POST", "", JSON.createObjectNode().put("rule", rule).toString()).get(0);
    }

    /** All rules with their hits. */
    public List<Fault> faults() {
        return ask("GET", "", "");
    }

    /** Ends a rule. */
    public void removeFault(String name) {
        ask("DELETE", "?name=" + URLEncoder.encode(name, StandardCharsets.UTF_8), "");
    }

    /** A rule with its hits. */
    public record Fault(String name, String rule, String state, int hits, int queries) {}

    private List<Fault> ask(String method, String query, String body) {
        URI page = URI.create("http://" + getHost() + ":" + getMappedPort(CONTROL) + "/v1/faults" + query);
        HttpRequest request = HttpRequest.newBuilder(page)
                .header("Authorization", "Bearer " + token)
                .method(method, HttpRequest.BodyPublishers.ofString(body))
                .build();
        try {
            HttpResponse<String> reply = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            if (reply.statusCode() != 200) {
                throw new IllegalArgumentException(JSON.readTree(reply.body()).path("error").asText());
            }
            List<Fault> found = new ArrayList<>();
            for (String line : reply.body().lines().toList()) {
                JsonNode each = JSON.readTree(line);
                found.add(new Fault(
                        each.path("name").asText(),
                        each.path("rule").asText(),
                        each.path("state").asText(),
                        each.path("hits").asInt(),
                        each.path("queries").asInt()));
            }
            return found;
        } catch (IOException error) {
            throw new IllegalStateException(page + " cannot be read", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }
}
