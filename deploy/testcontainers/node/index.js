// hsdns, the DNS of a Kubernetes cluster, as a container of Testcontainers.
import { randomBytes } from "node:crypto";
import { promises } from "node:dns";
import { isIP } from "node:net";
import { lookup } from "node:dns/promises";
import { resolve } from "node:path";
import { AbstractStartedContainer, GenericContainer, Wait } from "testcontainers";

export const IMAGE = "ghcr.io/hsdns/hsdns:0.2.0.dev0";

/** Serves the manifests of a folder, and what becomes of them. */
export class HsdnsContainer extends GenericContainer {
  #token = randomBytes(16).toString("hex");

  constructor(manifests, image = IMAGE) {
    super(image);
    this.withCommand(["serve", "-p", "53", "--control", "0.0.0.0:9160", "--source", "manifests", "/lab"])
      .withEnvironment({ HSDNS_CONTROL_TOKEN: this.#token })
      .withBindMounts([{ source: resolve(manifests), target: "/lab", mode: "ro" }])
      .withExposedPorts("53/udp", 9160) // Testcontainers knows one protocol for each port
      .withWaitStrategy(Wait.forHttp("/ready", 9160));
  }

  async start() {
    return new StartedHsdnsContainer(await super.start(), this.#token);
  }
}

export class StartedHsdnsContainer extends AbstractStartedContainer {
  #token;

  constructor(started, token) {
    super(started);
    this.#token = token;
  }

  /** The address and port of the server on this machine, over UDP. */
  dns() {
    return `${this.getHost()}:${this.getMappedPort("53/udp")}`;
  }

  /** A resolver of node:dns that asks the server. */
  async resolver() {
    const found = new promises.Resolver();
    const host = this.getHost();
    const { address } = isIP(host) ? { address: host } : await lookup(host, { family: 4 });
    found.setServers([`${address}:${this.getMappedPort("53/udp")}`]);
    return found;
  }

  /** Adds a rule, such as "drop type AAAA times 1"; the error says what is wrong with it. */
  async addFault(rule) {
    return (await this.#ask("POST", "", JSON.stringify({ rule })))[0];
  }

  /** All rules with their hits. */
  faults() {
    return this.#ask("GET", "");
  }

  /** Ends a rule. */
  async removeFault(name) {
    await this.#ask("DELETE", `?name=${encodeURIComponent(name)}`);
  }

  async #ask(method, query, body) {
    const page = `http://${this.getHost()}:${this.getMappedPort(9160)}/v1/faults${query}`;
    const reply = await fetch(page, { method, body, headers: { authorization: `Bearer ${this.#token}` } });
    const text = await reply.text();
    if (!reply.ok) throw new Error(JSON.parse(text).error);
    return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }
}
