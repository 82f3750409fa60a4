// A command for each lookup; the results are the addresses that it prints: PATTERN COMMAND... -- KIND NAME TIMES SECONDS
const {spawnSync} = require("child_process");
const {readSync, writeSync} = require("fs");
const all = process.argv.slice(2);
const at = all.indexOf("--");
const [pattern, ...command] = all.slice(0, at);
const [kind, name, times, pause] = all.slice(at + 1);
const [program, ...words] = command.map((word) => word.replace("KIND", kind).replace("NAME", name));
for (let number = 0; number < times; number++) {
  if (number) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause * 1000);
  writeSync(1, "begin\n");
  readSync(0, Buffer.alloc(1));
  const done = spawnSync(program, words, {encoding: "utf8"});
  const printed = (done.stdout + done.stderr).trim();
  const found = new Set([...printed.matchAll(new RegExp(pattern, "g"))].map((each) => each[1]));
  writeSync(1, found.size ? `ok ${[...found].join(" ")}\n` : `error ${printed.split("\n").pop() || done.signal}\n`);
}
