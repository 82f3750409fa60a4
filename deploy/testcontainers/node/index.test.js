import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HsdnsContainer } from "./index.js";

let cluster;
before(async () => {
  cluster = await new HsdnsContainer("../manifests").start();
});
after(() => cluster?.stop());

test("the port is looked up again", async () => {
  const resolver = await cluster.resolver();
  const lookUp = () => resolver.resolveSrv("_http._tcp.web.shop.svc.cluster.local");
  await cluster.addFault("nxdomain type SRV times 1 named gone");
  await assert.rejects(lookUp(), { code: "ENOTFOUND" });
  const found = await lookUp();
  assert.deepEqual(found.map(({ name, port }) => [name, port]), [["web-0.web.shop.svc.cluster.local", 8080]]);
  assert.deepEqual((await cluster.faults()).map(({ name, hits }) => [name, hits]), [["gone", 1]]);
});

test("what is wrong is said", async () => {
  await assert.rejects(cluster.addFault("servfail"), /did you mean "rcode SERVFAIL"\?/);
  await assert.rejects(cluster.removeFault("other"), /no rule named "other" is active/);
});
