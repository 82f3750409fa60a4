// lookup, resolve or fetch; KIND NAME TIMES SECONDS
const dns = require("dns");
const [how, kind, name, times, pause] = process.argv.slice(2);
const say = (text) => require("fs").writeSync(1, text + "\n");

const ways = {
  lookup: {
    host: async () => (await dns.promises.lookup(name, {all: true})).map((each) => each.address),
    ptr: async () => [(await dns.promises.lookupService(name, 80)).hostname],
  },
  resolve: {
    host: () => dns.promises.resolve4(name),
    srv: async () => (await dns.promises.resolveSrv(name)).map((each) => `${each.name}:${each.port}`),
    txt: async () => (await dns.promises.resolveTxt(name)).map((each) => each.join("").replace(" ", "_")),
    ptr: () => dns.promises.reverse(name),
  },
  fetch: {
    host: async () => {
      try {
        await fetch(`http://${name}/`);
      } catch (error) {
        const causes = error.cause.errors || [error.cause];
        if (causes.some((each) => each.address)) return causes.map((each) => each.address);
        throw error.cause;
      }
    },
  },
};

(async () => {
  for (let number = 0; number < times; number++) {
    if (number) await new Promise((done) => setTimeout(done, pause * 1000));
    say("begin");
    require("fs").readSync(0, Buffer.alloc(1));
    try {
      say("ok " + (await ways[how][kind]()).join(" "));
    } catch (error) {
      say("error " + (error.code || error.message));
    }
  }
  process.exit();
})();
