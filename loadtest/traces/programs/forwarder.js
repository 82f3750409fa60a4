// A forwarder, asked as a libc asks it, without the search list: HOW PROGRAM KIND NAME TIMES SECONDS
// HOW: dnsmasq, coredns, nodelocaldns (CoreDNS as the node-local cache sets it up), resolved, istio (istio.go)
const {spawn} = require("child_process");
const dgram = require("dgram");
const net = require("net");
const fs = require("fs");
const [how, program, kind, name, times, pause] = process.argv.slice(2);
const folder = fs.mkdtempSync("/tmp/forwarder-");
const conf = fs.readFileSync("/etc/resolv.conf", "utf8");
const servers = [...conf.matchAll(/nameserver (\S+)/g)].map((each) => each[1]);
const hasEdns = conf.includes("edns0");
const ADDRESS = "127.0.0.53";
const TYPES = {host: [1, 28], srv: [33], txt: [16], ptr: [12]};
const RCODES = ["", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
const say = (text) => fs.writeSync(1, text + "\n");
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const STARTS = {
  dnsmasq: () => ["-d", "-C", "/dev/null", "-u", "root", "-g", "root", "-a", ADDRESS, "-z", "-r", "/etc/resolv.conf", "-x", `${folder}/pid`, "--log-facility=/dev/null"],
  coredns: () => {
    fs.writeFileSync(`${folder}/Corefile`, `. {\n bind ${ADDRESS}\n forward . /etc/resolv.conf\n cache 30\n}\n`);
    return ["-conf", `${folder}/Corefile`];
  },
  nodelocaldns: () => {
    const cache = "cache {\n success 9984 30\n denial 9984 5\n }";
    fs.writeFileSync(`${folder}/Corefile`, `. {\n bind ${ADDRESS}\n ${cache}\n forward . ${servers.join(" ")} {\n force_tcp\n }\n}\n`);
    return ["-conf", `${folder}/Corefile`];
  },
  istio: () => [],
};

// In namespaces of its own kind: it starts without a bus and not as root, and asks nobody without a routable interface.
STARTS.resolved = () => ["-c", `
  ip link add pod0 type veth peer name pod1 && ip link set pod1 up && ip address add 10.245.0.2/24 dev pod0 && ip link set pod0 up
  mount -t tmpfs none /run && mkdir -p /run/systemd/resolve && chmod 777 /run/systemd/resolve
  echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
  exec unshare --user --map-user=1000 --map-group=1000 --keep-caps "${program}"`];

function query(type, asked) {
  const labels = asked.replace(/\.$/, "").split(".").map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  const opt = hasEdns ? [0, 0, 41, 1232 >> 8, 1232 & 255, 0, 0, 0, 0, 0, 0] : [];
  return Buffer.concat([Buffer.from([0, type, 1, 0, 0, 1, 0, 0, 0, 0, 0, hasEdns ? 1 : 0]), ...labels, Buffer.from([0, 0, type, 0, 1, ...opt])]);
}

// With use-vc, what a UDP socket does, over one connection.
function connected() {
  const socket = net.connect(53, ADDRESS);
  let unread = Buffer.alloc(0);
  socket.on("data", (data) => {
    unread = Buffer.concat([unread, data]);
    while (unread.length > 2 && unread.length >= 2 + unread.readUInt16BE(0)) {
      const end = 2 + unread.readUInt16BE(0);
      socket.emit("message", unread.subarray(2, end));
      unread = unread.subarray(end);
    }
  });
  return Object.assign(socket, {
    send: (wire) => socket.write(Buffer.concat([Buffer.from([wire.length >> 8, wire.length & 255]), wire])),
    close: () => socket.destroy(),
  });
}

// Both types at once, twice after five seconds, or over TCP for twelve, as a libc; the addresses, or the rcodes.
function lookUp(asked, types) {
  return new Promise((done) => {
    const overTcp = conf.includes("use-vc");
    const socket = overTcp ? connected() : dgram.createSocket("udp4");
    const replies = {};
    let tries = 0;
    const send = () => {
      if (tries++ === (overTcp ? 1 : 2)) return finish("timeout");
      for (const type of types) if (!replies[type]) socket.send(query(type, asked), 53, ADDRESS);
      timer = setTimeout(send, overTcp ? 12000 : 5000);
    };
    let timer;
    let hasEnded = false;
    const finish = (error) => {
      if (hasEnded) return;
      hasEnded = true;
      clearTimeout(timer);
      socket.close();
      const found = Object.values(replies).flatMap((each) => each.found);
      const rcodes = [...new Set(Object.values(replies).map((each) => each.rcode))].filter(Boolean);
      done(found.length ? `ok ${found.join(" ")}` : `error ${error || rcodes.join(" ") || "NODATA"}`);
    };
    socket.on("close", () => finish("closed"));
    socket.on("message", (reply) => {
      const type = reply[1];
      const count = reply.readUInt16BE(6);
      let at = 12;
      while (reply[at]) at += reply[at] + 1;
      at += 5;
      const found = [];
      for (let number = 0; number < count; number++) {
        while (reply[at] && reply[at] < 192) at += reply[at] + 1;
        at += reply[at] ? 2 : 1;
        const length = reply.readUInt16BE(at + 8);
        const data = reply.subarray(at + 10, at + 10 + length);
        if (reply.readUInt16BE(at) === type) found.push(type === 1 ? data.join(".") : type === 28 ? data.toString("hex").match(/.{4}/g).join(":") : "record");
        at += 10 + length;
      }
      replies[type] = {found, rcode: RCODES[reply[3] & 15]};
      if (types.every((each) => replies[each])) finish("");
    });
    send();
  });
}

(async () => {
  const child = spawn(how === "resolved" ? "sh" : program, STARTS[how](), {stdio: ["ignore", "ignore", "ignore"]});
  // It is ready when its port is taken.
  for (let port = ""; !port; await wait(5)) {
    port = fs.readFileSync("/proc/net/udp", "utf8").includes("3500007F:0035");
    if (child.exitCode !== null) return say("begin\nerror it ended");
  }
  await wait(100);
  const reverse = name.split(".").reverse().join(".") + ".in-addr.arpa";
  for (let number = 0; number < times; number++) {
    if (number) await wait(pause * 1000);
    say("begin");
    fs.readSync(0, Buffer.alloc(1));
    say(await lookUp(kind === "ptr" ? reverse : name, TYPES[kind]));
  }
  process.exit();
})();
