// nginx or Envoy in front of a name, and to whom they would connect: PROGRAM HOW KIND NAME TIMES SECONDS
// HOW: nginx-upstream, nginx-resolver, nginx-valid; envoy-strict, envoy-logical, envoy-ttl.
const {spawn} = require("child_process");
const fs = require("fs");
const http = require("http");
const [program, how, , name, times, pause] = process.argv.slice(2);
const folder = fs.mkdtempSync("/tmp/proxy-");
const servers = [...fs.readFileSync("/etc/resolv.conf", "utf8").matchAll(/nameserver (\S+)/g)].map((each) => each[1]);
const say = (text) => fs.writeSync(1, text + "\n");
const begin = () => { say("begin"); fs.readSync(0, Buffer.alloc(1)); };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const get = (url) =>
  new Promise((done, failed) => {
    http.get(url, {agent: false}, (reply) => {
      let text = "";
      reply.on("data", (data) => (text += data));
      reply.on("end", () => done(text));
    }).on("error", failed);
  });

// Start it; return its last words if it ends, else "" as soon as it answers.
async function started(words, url) {
  let said = "";
  const child = spawn(program, words, {stdio: ["ignore", "ignore", "pipe"]});
  child.stderr.on("data", (data) => (said += data));
  const ended = new Promise((done) => child.on("close", () => done(true)));
  for (;;) {
    try {
      await get(url);
      return "";
    } catch {
      if (await Promise.race([ended, wait(2)])) return said.trim().split("\n").pop();
    }
  }
}

async function nginx() {
  const isStatic = how === "nginx-upstream";
  const resolver = `resolver ${servers.join(" ")} ${how === "nginx-valid" ? "valid=10s" : ""};`;
  const proxy = isStatic ? `proxy_pass http://${name};` : `set $up ${name}; proxy_pass http://$up;`;
  const log = `${folder}/log`;
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((each) => `${each}_temp_path ${folder}/${each};`);
  fs.writeFileSync(log, "");
  fs.writeFileSync(`${folder}/conf`, `
    daemon off; master_process off; user root root; pid ${folder}/pid; error_log ${log} info;
    events { }
    http {
      access_log off; ${temporary.join(" ")}
      ${isStatic ? "" : resolver}
      server { listen 127.0.0.1:8080; location / { ${proxy} } location /up { return 204; } }
    }`);
  if (isStatic) begin();
  const error = await started(["-c", `${folder}/conf`, "-e", log], "http://127.0.0.1:8080/up");
  if (error) return say("error " + error.replace(/^nginx: \[\w+\] /, "").replace(/ in \/tmp.*/, ""));
  for (let number = 0; number < times; number++) {
    if (number) await wait(pause * 1000);
    if (number || !isStatic) begin();
    const size = fs.statSync(log).size;
    await get("http://127.0.0.1:8080/");
    const text = fs.readFileSync(log, "utf8").slice(size);
    const found = [...text.matchAll(/connect\(\) to \[?(\S+?)\]?:80 failed/g)].map((each) => each[1]);
    const wrong = [...text.matchAll(/could not be resolved \((.*?)\)/g)].map((each) => each[1]);
    say(found.length ? `ok ${found.join(" ")}` : `error ${wrong.join(" ")}`);
  }
}

async function envoy() {
  const endpoint = {address: {socket_address: {address: name, port_value: 80}}};
  const cluster = {
    name: "web",
    connect_timeout: "1s",
    type: how === "envoy-logical" ? "LOGICAL_DNS" : "STRICT_DNS",
    respect_dns_ttl: how === "envoy-ttl",
    load_assignment: {cluster_name: "web", endpoints: [{lb_endpoints: [{endpoint}]}]},
  };
  const admin = {address: {socket_address: {address: "127.0.0.1", port_value: 9901}}};
  fs.writeFileSync(`${folder}/envoy.json`, JSON.stringify({admin, static_resources: {clusters: [cluster]}}));
  begin();
  const words = ["-c", `${folder}/envoy.json`, "--concurrency", "1", "--disable-hot-restart", "-l", "error"];
  const error = await started(words, "http://127.0.0.1:9901/ready");
  if (error) return say("error " + error);
  for (let number = 0; number < times; number++) {
    if (number) {
      await wait(pause * 1000);
      begin();
    }
    const limit = Date.now() + 60_000;
    let found = [];
    let ended = [];
    while (!found.length && !ended.length && Date.now() < limit) {
      const stats = await get("http://127.0.0.1:9901/stats");
      const told = JSON.parse(await get("http://127.0.0.1:9901/clusters?format=json")).cluster_statuses[0];
      found = (told.host_statuses || []).map((each) => each.address.socket_address.address);
      ended = [...stats.matchAll(/cluster\.web\.(update_(?:failure|empty|no_rebuild)): [1-9]/g)].map((each) => each[1]);
      await wait(2);
    }
    say(found.length ? `ok ${found.join(" ")}` : `error ${ended.join(" ") || "nothing yet"}`);
  }
}

(how.startsWith("nginx") ? nginx : envoy)().then(() => process.exit());
