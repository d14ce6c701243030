import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as handspan from "../../bridge/handspan/client/handspan.js";
import { CLIENT } from "../../bridge/handspan/client/core/protocol.js";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const client = here("../../bridge/handspan/client/");
const bin = (name) => here(`./node_modules/.bin/${name}`);
const missing = (name) => !existsSync(bin(name)) && `${name} is not installed: npm install in tests/client`;
const modules = ["handspan.js", ...["core", "shell"].flatMap((room) => readdirSync(client + room).map((file) => `${room}/${file}`))];
const source = (module) => readFileSync(client + module, "utf8");

/** Minified and gzipped, as it would be delivered. *Source:* the owner's budget of 8 kB. */
const BUDGET_BYTES = 8000;

/** What is loaded besides: before the first socket, and for the first subscriber. */
const LAZY_BYTES = { "tab.js": 1000, "overlay.js": 1500 };

test("what a page loads is at most 8 kB, minified and gzipped; 1 kB more before it connects, 1.5 kB more once it subscribes", { skip: missing("esbuild") }, (t) => {
  const out = mkdtempSync(join(tmpdir(), "handspan-"));
  const options = ["--bundle", "--minify", "--format=esm", "--splitting", "--chunk-names=[name]", `--outdir=${out}`];
  execFileSync(bin("esbuild"), [`${client}handspan.js`, ...options, "--log-level=error"]);
  const bytes = (file) => gzipSync(readFileSync(join(out, file)), { level: 9 }).length;
  const budgets = { "handspan.js": BUDGET_BYTES, ...LAZY_BYTES };
  assert.deepEqual(readdirSync(out).toSorted(), Object.keys(budgets).toSorted(), "and nothing that they share");
  for (const [file, budget] of Object.entries(budgets)) {
    t.diagnostic(`${file}: ${bytes(file)} bytes`);
    assert.ok(bytes(file) <= budget, `${file}: ${bytes(file)} bytes`);
  }
});

test("its types hold, strictly, and a program in TypeScript can rely on its declarations", { skip: missing("tsc") }, () => {
  const out = mkdtempSync(join(tmpdir(), "handspan-"));
  const tsc = (...args) => {
    try {
      execFileSync(bin("tsc"), args, { encoding: "utf8" });
    } catch (error) {
      assert.fail(error.stdout);
    }
  };
  tsc("-p", client, "--outDir", out);
  const program = join(out, "program.ts");
  writeFileSync(
    program,
    `import { connect, content, HandspanError } from "./handspan.js";
    const bridge = connect({ threadId: "t", token: async () => "x", settle: false });
    const remove: () => void = bridge.tool("a", { description: "d", readOnly: true }, async ({ x }, { signal, progress }) => {
      progress(1, 2, "half");
      progress({ message: "more" });
      return signal.aborted ? content([{ type: "text", text: "no" }]) : { x };
    });
    bridge.tool({ name: "b", description: "d" }, () => 1);
    // @ts-expect-error: a tool has a description
    bridge.tool("c", {}, () => 1);
    const run = bridge.run("hi", { ifBusy: "queue" });
    run.finished.then(({ reason, depth, output }) => [reason.length, depth.toFixed(), output]);
    (async () => { for await (const event of run) event.type.length; })();
    bridge.subscribe(({ messages, run, calls, status }) => [messages[0].role, run?.depth, calls[0].state, status]);
    bridge.subscribe(({ messages, calls, suggestions }) => [messages[0].pending, calls[0].args?.x, suggestions[0].length]);
    bridge.runTool("a", { x: 1 }, { followUp: "explain" }).then(({ outcome, error }) => [outcome, error?.code]);
    bridge.onApproval(({ name }) => ({ approved: name === "a" }));
    const other = bridge.thread("t2");
    other.run([{ type: "text", text: "hi" }]).abort();
    // @ts-expect-error: tools belong to the page, not to a conversation
    other.tool;
    new HandspanError({ code: "x" }).code satisfies string;
    remove();`,
  );
  tsc("--strict", "--noEmit", "--target", "ES2022", "--module", "ES2022", "--moduleResolution", "bundler", "--lib", "ES2023,DOM", program);
});

test("it is plain ES modules that import one another and nothing else, served as they are", () => {
  for (const module of modules)
    for (const [, name] of source(module).matchAll(/(?:^(?:import|export)\b[^;]*?from\s*|\bimport\()["']([^"']+)["']/gms)) {
      const target = new URL(name, `file:///${module}`).pathname.slice(1);
      assert.ok(modules.includes(target), `${module} imports ${name}`);
    }
});

test("the core is pure: it imports nothing outside, and knows no socket, clock, chance, page or log", () => {
  const forbidden = /\b(WebSocket|document\.|window(?!\b[^\n]*===)|setTimeout|setInterval|queueMicrotask|Date\.now|performance|Math\.random|crypto|console|globalThis|sessionStorage|await|async)\b/;
  for (const module of modules.filter((name) => name.startsWith("core/"))) {
    const code = source(module).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "").replace(/"\[window\]"|value\.window/g, "");
    assert.doesNotMatch(code, forbidden, module);
    assert.doesNotMatch(code, /from "\.\.\//, module);
  }
});

test("P14: nothing is built from text at run time, and nothing is written into the page", () => {
  for (const module of modules) assert.doesNotMatch(source(module), /\beval\(|new Function\(|innerHTML|document\.write/, module);
});

test("files stay under 400 lines", () => {
  for (const module of modules) assert.ok(source(module).split("\n").length <= 400, module);
});

test("the package names what is there, and one version", () => {
  const { name, version, type, exports } = JSON.parse(source("package.json"));
  assert.deepEqual([name, type, version], ["handspan", "module", CLIENT.version]);
  assert.ok(existsSync(client + exports["."].default));
  assert.deepEqual(Object.keys(handspan).toSorted(), ["HandspanError", "connect", "content"]);
});

test("the public interface of api.md is there", () => {
  const bridge = handspan.connect({ url: "ws://host.test", threadId: "t", WebSocket: class {} });
  const methods = "tool run runTool abort context onApproval subscribe patchState setState onError thread close".split(" ");
  for (const method of methods) assert.equal(typeof bridge[method], "function", method);
  assert.deepEqual([bridge.status, bridge.messages, bridge.threadId], ["connecting", [], "t"]);
  const thread = bridge.thread("t2");
  for (const method of "run runTool abort subscribe patchState setState close".split(" "))
    assert.equal(typeof thread[method], "function", method);
  bridge.close();
});
