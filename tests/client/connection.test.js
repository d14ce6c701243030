import assert from "node:assert/strict";
import test from "node:test";
import { connect } from "../../bridge/handspan/client/handspan.js";
import { afterClose, backoffMs } from "../../bridge/handspan/client/core/protocol.js";
import { browser, FakeServer, openPage, outcome, page, rest } from "./fakes.js";
import { vectors } from "./vectors.js";

const task = () => new Promise((go) => setTimeout(go));

async function back(server, code) {
  server.socket.drop(code);
  await task();
  await rest();
}

test("the first frame is a hello, and nothing comes before it", async () => {
  const { server } = await openPage({ token: "secret" });
  const [{ documentId, ...hello }] = server.frames;
  assert.match(documentId, /^d-[A-Za-z0-9]{16,}$/);
  assert.deepEqual(hello, {
    type: "hello",
    protocol: 1,
    client: { name: "handspan-js", version: "0.1.0" },
    token: "secret",
    threads: [{ threadId: "t1" }],
    calls: [],
    tools: [],
    context: [],
    visible: true,
  });
  assert.equal(server.socket.protocol, "handspan.v1");
});

test("the address: ws for http, the page's own origin by default, nothing of a token in it (C147)", async (t) => {
  browser(t);
  for (const [url, address] of [
    [undefined, "wss://shop.test/"],
    ["http://127.0.0.1:8765", "ws://127.0.0.1:8765/"],
    ["ws://host.test/bridge", "ws://host.test/bridge"],
    ["/bridge", "wss://shop.test/bridge"],
    ["https://host.test/#frag", "wss://host.test/"],
  ]) {
    const { server } = await openPage({ url, token: "secret" });
    assert.equal(server.socket.url, address);
  }
  assert.throws(() => connect({ url: "http://", threadId: "t" }));
});

test("the thread's id is random, unguessable, and kept for the tab", async (t) => {
  const storage = {};
  browser(t, { storage });
  const first = await openPage({ threadId: undefined });
  const second = await openPage({ threadId: undefined });
  assert.match(first.bridge.threadId, /^t-[A-Za-z0-9]{16,}$/);
  assert.equal(second.bridge.threadId, first.bridge.threadId);
  delete storage["handspan.thread"];
  const otherTab = await openPage({ threadId: undefined });
  assert.notEqual(otherTab.bridge.threadId, first.bridge.threadId);
});

test("P14: a tab whose storage is forbidden has a thread all the same", async (t) => {
  browser(t, { storage: new Proxy({}, { get() { throw new Error("denied"); } }) });
  const { bridge } = await openPage({ threadId: undefined });
  assert.match(bridge.threadId, /^t-/);
});

test("C093: connect, close, connect in one tick leaves one live socket", async () => {
  const server = new FakeServer();
  const options = { url: "http://host.test", threadId: "t1", WebSocket: server.WebSocket, backoff: () => 0 };
  const first = connect(options);
  first.tool("t", { description: "d" }, () => 1);
  first.close();
  const second = connect(options);
  second.tool("t", { description: "d" }, () => 1);
  await rest();
  assert.equal(server.sockets.length, 1);
  assert.equal(server.frames[0].tools.length, 1);
  assert.deepEqual([first.status, second.status], ["closed", "open"]);
  second.close();
});

test("P9: a reconnect resumes with the newest secret, in the same document, from where it was", async () => {
  const { server } = await openPage();
  server.events([{ type: "CUSTOM", name: "x", value: 1 }], { offset: 7 });
  await rest();
  await back(server);
  await back(server);
  const [first, second, third] = server.sent("hello");
  assert.equal(first.session, undefined);
  assert.deepEqual(second.session, { id: "s-1", secret: "secret-1" });
  assert.deepEqual(third.session, { id: "s-1", secret: "secret-2" });
  assert.equal(third.documentId, first.documentId);
  assert.deepEqual(third.threads, [{ threadId: "t1", epoch: "e1", offset: 7 }]);
});

test("a token function is asked at every connect; one that fails is reported and asked again", async () => {
  const tokens = ["one", new Error("no token"), "two"];
  let asked = 0;
  const token = async () => {
    const next = tokens[asked++];
    if (next instanceof Error) throw next;
    return next;
  };
  const { server, problems } = await openPage({ token });
  server.socket.drop();
  await task();
  await task();
  await rest();
  assert.deepEqual(server.sent("hello").map(({ token }) => token), ["one", "two"]);
  assert.deepEqual(problems.map(({ message }) => message), ["no token"]);
});

test("close codes: what is retried, what waits until the tab is used, what is over (C144)", () => {
  const codes = (verdict, list) => list.forEach((code) => assert.equal(afterClose(code), verdict, String(code)));
  codes("waiting", [1000, 1001, 1002, 1003, 1005, 1006, 1007, 1009, 1011, 1012, 1013, 1015, 4000, 4008, 4408, 4410, 4429, 4499]);
  codes("parked", [4409]);
  codes("over", [1008, 3000, 3003, 4500, 4501, 4503, 4999]);
});

test("C144: a page that is refused does not come back: all that waits rejects with the code it was told", async () => {
  const { bridge, server, problems } = page();
  server.answers.hello = (hello, socket) => {
    socket.deliver({ type: "error", code: "unauthenticated", message: "who are you", retryable: false });
    setImmediate(() => setImmediate(() => socket.drop(3000)));
  };
  server.answers["run.start"] = server.answers["tool.invoke"] = () => undefined;
  const run = bridge.run("hi");
  const call = bridge.runTool("t");
  await rest();
  assert.deepEqual([await outcome(run.finished), await outcome(call)], [{ code: "unauthenticated" }, { code: "unauthenticated" }]);
  assert.deepEqual(await outcome(bridge.runTool("t")), { code: "unauthenticated" });
  assert.equal(bridge.status, "closed");
  await task();
  await rest();
  assert.equal(server.sockets.length, 1);
  assert.deepEqual(problems.map(({ code }) => code), ["unauthenticated"]);
});

test("a page that is thrown out without a word reports that, once", async () => {
  const { bridge, server, problems } = await openPage();
  await back(server, 4501);
  assert.deepEqual([bridge.status, server.sockets.length], ["closed", 1]);
  assert.deepEqual(problems.map(({ code, message }) => [code, message]), [["closed", "closed"]]);
});

test("P9: a page that is superseded comes back when it is used, in a new session, its calls given up", async (t) => {
  const window = browser(t);
  const { bridge, server } = await openPage();
  let reason;
  bridge.tool("t", { description: "d" }, (_, { signal }) => new Promise((go) => signal.addEventListener("abort", () => go((reason = signal.reason.message)))));
  await rest();
  server.call();
  await rest();
  await back(server, 4409);
  await back(server);
  assert.deepEqual([bridge.status, server.sockets.length, reason], ["reconnecting", 1, "superseded"]);
  window.fire("online");
  await rest();
  assert.equal(server.sockets.length, 1, "that is no use of the tab");
  const run = bridge.run("hi");
  await rest();
  const hello = server.sent("hello")[1];
  assert.deepEqual([hello.session, hello.calls], [undefined, []]);
  assert.deepEqual([bridge.status, server.sent("run.start")[0].runId], ["open", run.id]);
  await back(server, 4409);
  window.look(true);
  await rest();
  assert.equal(server.sockets.length, 3);
});

test("reconnects back off: full jitter, 250 ms doubling to 15 s", () => {
  assert.deepEqual([0, 1, 2, 6, 50].map((attempt) => backoffMs(attempt, 0.5)), [125, 250, 500, 7_500, 7_500]);
  assert.equal(backoffMs(3, 0), 0);
});

test("the back-off grows with every failure and begins again after a welcome", async (t) => {
  const attempts = [];
  const { server } = await openPage({ backoff: (attempt) => (attempts.push(attempt), 0) });
  server.accepting = false;
  for (let n = 0; n < 3; n++) await back(server);
  server.accepting = true;
  await back(server);
  await back(server);
  assert.deepEqual(attempts, [0, 1, 2, 3, 0]);
});

test("at once when the network is back or the tab is looked at, whatever the back-off", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const window = browser(t);
  const { server } = await openPage({ backoff: () => 10_000 });
  for (const wake of [() => window.fire("online"), () => window.look(true), () => window.fire("focus")]) {
    const before = server.sockets.length;
    server.socket.drop();
    await rest();
    assert.equal(server.sockets.length, before);
    wake();
    await rest();
    assert.equal(server.sockets.length, before + 1);
  }
  t.mock.timers.tick(60_000);
  await rest();
  assert.equal(server.sockets.length, 4, "the attempt that was waited for is not made besides");
});

test("goaway: the page comes back after the time it was told, no sooner", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { server } = await openPage();
  server.push({ type: "goaway", reconnectAfterMs: 3_000, reason: "restart" });
  await rest();
  server.socket.drop(1012);
  await rest();
  t.mock.timers.tick(2_999);
  await rest();
  assert.equal(server.sockets.length, 1);
  t.mock.timers.tick(1);
  await rest();
  assert.equal(server.sockets.length, 2);
});

test("C142: a page that hears nothing for two heartbeats reconnects; anything heard counts; a ping is answered", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { server } = await openPage();
  server.heartbeatMs = 20_000;
  for (let n = 0; n < 4; n++) {
    t.mock.timers.tick(30_000);
    await rest();
    server.push(n % 2 ? { type: "ping" } : { type: "events", threadId: "t1", epoch: "e1", offset: n + 1, events: [] });
    await rest();
  }
  assert.equal(server.sockets.length, 1);
  assert.equal(server.sent("pong").length, 2);
  t.mock.timers.tick(40_000);
  t.mock.timers.tick(0);
  await rest();
  assert.equal(server.sockets.length, 2);
  assert.equal(server.sockets[0].readyState, 3, "the silent one is let go");
});

test("C142: the heartbeat that the welcome tells counts from the first socket on", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const server = new FakeServer();
  server.heartbeatMs = 1_000;
  await openPage({}, server);
  t.mock.timers.tick(1_999);
  await rest();
  assert.equal(server.sockets.length, 1);
  t.mock.timers.tick(1);
  t.mock.timers.tick(0);
  await rest();
  assert.equal(server.sockets.length, 2);
  t.mock.timers.tick(38_000);
  await rest();
  assert.equal(server.sockets.length, 3, "no timer of the first socket is left");
});

test("a socket that never opens is given up like one that falls silent", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const server = new FakeServer();
  server.accepting = false;
  await openPage({}, server);
  t.mock.timers.tick(40_000);
  t.mock.timers.tick(0);
  await rest();
  assert.equal(server.sockets.length, 2);
});

test("C098: a socket of the past is deaf: its late frames and its close mean nothing", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { bridge, server } = await openPage();
  const old = server.socket;
  t.mock.timers.tick(40_000); // silent: let go, though it lives
  t.mock.timers.tick(0);
  await rest();
  assert.equal(server.sockets.length, 2);
  old.onmessage?.({ data: '{"type":"goaway","reconnectAfterMs":1}' });
  old.onclose?.({ code: 4500 });
  await rest();
  assert.deepEqual([bridge.status, server.sockets.length], ["open", 2]);
});

test("pagehide lets the socket go without a bye; pageshow brings the page back, in its session", async (t) => {
  const window = browser(t);
  const { bridge, server } = await openPage();
  window.fire("pagehide", { persisted: true });
  await task();
  await rest();
  assert.deepEqual([server.sockets.length, server.socket.readyState, server.sent("bye").length], [1, 3, 0]);
  window.fire("pageshow", { persisted: true });
  await rest();
  assert.equal(server.sent("hello")[1].session.id, "s-1");
  assert.equal(bridge.status, "open");
  window.fire("pageshow", { persisted: false });
  await rest();
  assert.equal(server.sockets.length, 2);
});

test("visibility is told, in the hello and when it changes", async (t) => {
  const window = browser(t, { visible: false });
  const { server } = await openPage();
  assert.equal(server.frames[0].visible, false);
  window.look(true);
  window.look(false);
  await rest();
  assert.deepEqual(server.sent("visibility"), [{ type: "visibility", visible: true }, { type: "visibility", visible: false }]);
});

test("close says bye, rejects all that waits with closed, aborts handlers, and is heard no more", async (t) => {
  const window = browser(t);
  const { bridge, server } = await openPage();
  let reason;
  bridge.tool("t", { description: "d" }, (_, { signal }) => new Promise((go) => signal.addEventListener("abort", () => go((reason = signal.reason.message)))));
  await rest();
  server.call();
  server.answers["tool.invoke"] = () => undefined;
  const [run, call] = [bridge.run("hi"), bridge.runTool("t")];
  await rest();
  bridge.close();
  await rest();
  assert.equal(server.sent("bye").length, 1);
  assert.equal(server.socket.closedWith, 1000);
  assert.deepEqual([await outcome(run.finished), await outcome(call)], [{ code: "closed" }, { code: "closed" }]);
  assert.deepEqual([reason, bridge.status], ["closed", "closed"]);
  for (const type of ["online", "focus", "pageshow"]) window.fire(type);
  window.look(true);
  assert.deepEqual(await outcome(bridge.run("hi").finished), { code: "closed" });
  bridge.close();
  await task();
  await rest();
  assert.equal(server.sockets.length, 1);
});

test("P14: a bad frame is reported, changes nothing, and what follows is heard", async () => {
  const { bridge, server, problems } = await openPage();
  const bad = ["{", "[]", "7", '"x"', "null", '{"type":"tool.call"', '{"type":"events","threadId":"t1","epoch":"e1","offset":1}', '{"type":"snapshot","threadId":"t1"}'];
  for (const text of bad) server.socket.deliver(text);
  server.socket.deliver('{"type":"from the future"}');
  server.socket.deliver('{"type":"constructor"}');
  await rest();
  assert.equal(bridge.status, "open");
  assert.ok(problems.length >= 5 && problems.every(({ code }) => code === "bad_frame"));
  server.events([null], { offset: 1 });
  server.events([{ type: "TEXT_MESSAGE_START", messageId: "m" }], { offset: 2 });
  await rest();
  assert.equal(bridge.messages.length, 1);
});

test("error frames are reported with their code", async () => {
  const { server, problems } = await openPage();
  server.push({ type: "error", code: "rate_limited", message: "slower", retryable: true });
  await rest();
  assert.deepEqual(problems.map(({ code, message, retryable }) => [code, message, retryable]), [["rate_limited", "slower", true]]);
});

for (const { name, frame, ok } of vectors("server_frames"))
  test(`P14: ${name} is heard without harm`, { skip: !ok && "not a frame" }, async () => {
    const { bridge, server, problems } = await openPage();
    server.push(frame, { ...frame, extra: { unknown: true } });
    await rest();
    const wanted = { error: 2 }[frame.type] ?? (frame.threads?.[1]?.error || frame.tools?.rejected?.length ? problems.length : 0);
    assert.equal(problems.length, wanted, JSON.stringify(problems));
    assert.notEqual(bridge.status, "closed");
  });
