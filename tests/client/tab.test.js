import assert from "node:assert/strict";
import test from "node:test";
import { browser, FakeServer, openPage, page, rest } from "./fakes.js";

const T = { description: "a tool" };
const task = () => new Promise((go) => setTimeout(go));

async function back(server, code) {
  server.socket.drop(code);
  await task();
  await rest();
}

/** A server that remembers who is who: a living session is not given to another document. */
function makeServer() {
  const server = new FakeServer();
  server.answers["tool.result"] = () => undefined; // the answer is lost on its way, until a test says otherwise
  return server;
}

/** A page with a tool that is done when its test says so. */
async function workingPage(server, options) {
  const opened = page(options, server);
  const work = {};
  opened.bridge.tool("t", { ...T, parallel: true }, (_, { callId, signal }) => {
    work[callId] = { signal };
    return new Promise((resolve) => (work[callId].resolve = resolve));
  });
  await rest();
  return { ...opened, work };
}

/** It answers a hello with a session of its own. */
const refuse = (server, reason) =>
  (server.answers.hello = (hello, socket) => server.welcome(hello, socket, { resumed: false, session: { id: "s-new", secret: "new" }, reason }));

const lastHello = (server) => server.sent("hello").at(-1);
const kept = (storage) => Object.entries(storage).filter(([name]) => name.startsWith("handspan.kept")).map(([, text]) => JSON.parse(text));
const marks = (storage) => Object.keys(storage).filter((name) => name.startsWith("handspan.left"));

/** What a browser copies when a tab is duplicated, or opened by a page. */
const copy = (storage) => ({ ...storage });

// ---- the session ------------------------------------------------------------------------------

test("P9: a reload keeps the session: the new document says hello with it, and that the old one is gone", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  await openPage({}, server);
  assert.deepEqual([server.sent("hello")[0].session, server.sent("hello")[0].reload], [undefined, false]);
  assert.deepEqual([kept(storage).map(({ session }) => session.secret), marks(storage).length], [["secret-1"], 0]);
  first.leave();
  assert.equal(marks(storage).length, 1);
  browser(t, { storage });
  await openPage({}, server);
  const [before, now] = server.sent("hello");
  assert.deepEqual([now.session, now.reload], [{ id: "s-1", secret: "secret-1" }, true]);
  assert.notEqual(now.documentId, before.documentId);
  assert.deepEqual(now.threads, [{ threadId: "t1" }], "its view begins anew");
  assert.deepEqual([kept(storage)[0].session.secret, marks(storage)], ["secret-2", []], "each welcome has a new secret");
});

test("P9: a reconnect is no reload, before and after one", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  await openPage({}, server);
  await back(server);
  first.leave();
  browser(t, { storage });
  await openPage({}, server);
  await back(server);
  assert.deepEqual(server.sent("hello").map(({ reload, session }) => [reload, session?.secret]), [
    [false, undefined],
    [false, "secret-1"],
    [true, "secret-2"],
    [false, "secret-3"],
  ]);
});

test("a reload whose first socket fails says so with the next one", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  await openPage({}, server);
  first.leave();
  browser(t, { storage });
  server.accepting = false;
  await openPage({}, server);
  server.accepting = true;
  await back(server);
  assert.deepEqual([lastHello(server).reload, lastHello(server).session.id], [true, "s-1"]);
});

test("a tab that crashed leaves no mark: its session is asked for, and the server sees for itself", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  await openPage({}, server);
  first.close();
  browser(t, { storage });
  await openPage({}, server);
  assert.deepEqual([lastHello(server).session.id, lastHello(server).reload], ["s-1", false]);
});

test("behaviour 5: a duplicated tab has no mark, is refused the session, and goes on with its own", async (t) => {
  const storage = {};
  const server = makeServer();
  browser(t, { storage });
  await openPage({}, server);
  const copied = copy(storage);
  const other = browser(t, { storage: copied });
  refuse(server, "session_in_use");
  await openPage({}, server);
  assert.deepEqual([lastHello(server).session.id, lastHello(server).reload], ["s-1", false]);
  assert.deepEqual([kept(copied)[0].session.id, kept(storage)[0].session.id], ["s-new", "s-1"]);
  delete server.answers.hello;
  other.leave();
  browser(t, { storage: copied });
  await openPage({}, server);
  assert.deepEqual([lastHello(server).session.id, lastHello(server).reload], ["s-new", true]);
});

test("a tab that is duplicated before a second bridge of its page is open does not take that one's session", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  await openPage({}, server);
  await openPage({}, server);
  first.leave();
  browser(t, { storage });
  await openPage({}, server); // and not yet the second one
  browser(t, { storage: copy(storage) });
  await openPage({}, server);
  await openPage({}, server);
  assert.deepEqual(server.sent("hello").map(({ session, reload }) => [session?.id, reload]).slice(2), [["s-1", true], ["s-1", false], ["s-2", false]]);
});

test("what ends a session forgets it: bye, a newer document, a refusal", async (t) => {
  for (const end of [
    ({ bridge }) => bridge.close(),
    ({ server }) => back(server, 4409),
    ({ server }) => back(server, 3000),
  ]) {
    const storage = {};
    const server = makeServer();
    const first = browser(t, { storage });
    const opened = await openPage({}, server);
    await end(opened);
    await rest();
    assert.deepEqual(kept(storage), []);
    first.leave();
    assert.deepEqual(kept(storage), []);
    browser(t, { storage }).close();
  }
});

test("a session that the server does not know gives way to the one it made", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  await openPage({}, server);
  first.leave();
  browser(t, { storage });
  refuse(server, "unknown_session");
  await openPage({}, server);
  assert.deepEqual(kept(storage), [{ session: { id: "s-new", secret: "new" }, done: [] }]);
});

test("several bridges of a page, and its frames, do not take one another's session", async (t) => {
  const storage = {};
  const server = makeServer();
  const elsewhere = makeServer();
  elsewhere.sessions = 100;
  const top = {};
  top.parent = top;
  const [frame, sibling] = [{ parent: top }, { parent: top }];
  Object.assign(top, { length: 2, 0: frame, 1: sibling });

  async function load() {
    const documents = [browser(t, { storage, window: top })];
    await openPage({}, server);
    await openPage({ threadId: "t2" }, server);
    await openPage({ url: "http://elsewhere.test" }, elsewhere);
    for (const window of [frame, sibling]) {
      documents.push(browser(t, { storage, window }));
      await openPage({}, server);
    }
    return documents;
  }

  const documents = await load();
  documents.toReversed().forEach((one) => one.leave());
  await load();
  const told = (one) => one.sent("hello").map(({ session, reload }) => [session?.id, reload]);
  assert.deepEqual(told(server).slice(4), ["s-1", "s-2", "s-3", "s-4"].map((id) => [id, true]));
  assert.deepEqual(told(elsewhere)[1], ["s-101", true]);
});

test("C093: a bridge that is closed frees its place, whether it was open yet or not", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  page({}, server).bridge.close();
  (await openPage({}, server)).bridge.close();
  await openPage({}, server);
  const { id } = kept(storage)[0].session;
  first.leave();
  browser(t, { storage });
  await openPage({}, server);
  assert.equal(lastHello(server).session.id, id);
});

test("P14: what a resumed session's server refuses is heard by each document, once", async (t) => {
  const storage = {};
  const server = makeServer();
  server.answers.hello = (hello, socket) => server.welcome(hello, socket, { tools: { accepted: [], rejected: [{ name: "x", code: "bad_name", message: "x" }] } });
  const codes = ({ problems }) => problems.map(({ code }) => code);
  const first = browser(t, { storage });
  const one = await openPage({}, server);
  first.leave();
  browser(t, { storage });
  const two = await openPage({}, server);
  await back(server);
  assert.deepEqual([codes(one), codes(two)], [["bad_name"], ["bad_name"]]);
});

// ---- the results ------------------------------------------------------------------------------

test("P2, behaviour 3: a result that nobody took is announced by the next document, and sent when it has the session", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  const { work } = await workingPage(server);
  for (const callId of ["c1", "c2"]) server.call({ callId, attempt: 3 });
  await rest();
  work.c1.resolve({ saved: true });
  await rest();
  first.leave();
  browser(t, { storage });
  let welcome;
  server.answers.hello = (hello, socket) => (welcome = () => server.welcome(hello, socket));
  server.answers["tool.result"] = { status: "applied" };
  await openPage({}, server);
  assert.deepEqual(lastHello(server).calls, [{ callId: "c1", attempt: 3, state: "done" }], "what was only started is the server's to judge");
  assert.equal(server.sent("tool.result").length, 1, "nothing more before the welcome");
  welcome();
  await rest();
  const { callId, attempt, result } = server.sent("tool.result")[1];
  assert.deepEqual([callId, attempt, result], ["c1", 3, { saved: true }]);
  delete server.answers.hello;
  await back(server);
  assert.deepEqual(lastHello(server).calls, [], "it was taken");
});

test("a result that came while there was no socket is kept", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  const { bridge, work } = await workingPage(server, { settle: false });
  server.call();
  await rest();
  server.accepting = false;
  server.socket.drop();
  work.c1.resolve("offline");
  await rest();
  assert.equal(bridge.status, "reconnecting");
  first.leave();
  server.accepting = true;
  browser(t, { storage });
  await openPage({}, server);
  assert.equal(server.sent("tool.result").at(-1).result, "offline");
});

test("P7: a call that is settled otherwise, or sent anew, meanwhile is not answered by what was kept", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  const { work } = await workingPage(server);
  for (const callId of ["c1", "c2"]) server.call({ callId });
  await rest();
  for (const callId of ["c1", "c2"]) work[callId].resolve("old");
  await rest();
  first.leave();
  browser(t, { storage });
  const next = await workingPage(server);
  const before = server.sent("tool.result").length;
  server.push({ type: "tool.cancel", callId: "c1", attempt: 1, reason: "aborted" });
  server.call({ callId: "c2", attempt: 2 });
  await rest();
  assert.deepEqual(Object.keys(next.work), ["c2"]);
  next.work.c2.resolve("new");
  await rest();
  assert.deepEqual(server.sent("tool.result").slice(before).map(({ attempt, result }) => [attempt, result]), [[2, "new"]]);
  await back(server);
  assert.deepEqual(lastHello(server).calls, [{ callId: "c2", attempt: 2, state: "done" }]);
});

test("behaviour 5: a duplicated tab sends none of the results that it has a copy of", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  const { work } = await workingPage(server);
  server.call();
  await rest();
  work.c1.resolve("mine");
  await rest();
  first.leave();
  const copied = copy(storage);
  for (const name of marks(copied)) delete copied[name];
  browser(t, { storage: copied });
  refuse(server, "session_in_use");
  const before = server.sent("tool.result").length;
  await openPage({}, server);
  await back(server);
  assert.deepEqual(server.sent("tool.result").slice(before), []);
  assert.deepEqual([lastHello(server).calls, kept(copied)[0].done], [[], []]);
});

test("P12: 64 KiB of results are kept, all together; a larger one is lost with its document, the others are not", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  const { work } = await workingPage(server);
  const sizes = { c1: 40_000, c2: 70_000, c3: 30_000, c4: 20_000 };
  for (const callId of Object.keys(sizes)) server.call({ callId });
  await rest();
  for (const [callId, size] of Object.entries(sizes)) work[callId].resolve("x".repeat(size));
  await rest();
  first.leave();
  browser(t, { storage });
  await openPage({}, server);
  assert.deepEqual(lastHello(server).calls.map(({ callId }) => callId), ["c1", "c4"]);
});

// ---- the browser's cache ----------------------------------------------------------------------

test("a page out of the browser's cache is the same document: no mark is left, its handlers went on", async (t) => {
  const storage = {};
  const server = makeServer();
  const window = browser(t, { storage });
  const { work } = await workingPage(server);
  for (const callId of ["c1", "c2"]) server.call({ callId });
  await rest();
  window.fire("pagehide", { persisted: true });
  work.c1.resolve("in the dark");
  await rest();
  assert.equal(marks(storage).length, 1);
  assert.equal(server.sent("tool.result").length, 0);
  window.fire("pageshow", { persisted: true });
  await rest();
  const [before, now] = server.sent("hello");
  assert.deepEqual([now.documentId, now.session.id, marks(storage)], [before.documentId, "s-1", []]);
  assert.deepEqual(now.calls.map(({ callId, state }) => [callId, state]), [["c1", "done"], ["c2", "started"]]);
  assert.equal(server.sent("tool.result")[0].result, "in the dark");
  assert.equal(work.c2.signal.aborted, false);
});

test("P2: a page out of the cache goes on with the session and the results of those that were there meanwhile", async (t) => {
  const storage = {};
  const server = makeServer();
  const first = browser(t, { storage });
  const old = await workingPage(server);
  for (const callId of ["c1", "c2"]) server.call({ callId });
  await rest();
  first.fire("pagehide", { persisted: true });
  const second = browser(t, { storage });
  const next = await workingPage(server);
  server.call({ callId: "c1", attempt: 2 });
  await rest();
  next.work.c1.resolve("the second's");
  await back(server);
  const { secret } = kept(storage)[0].session;
  assert.deepEqual(secret, "secret-3");
  second.leave();
  first.fire("pageshow", { persisted: true });
  await rest();
  const hello = lastHello(server);
  assert.deepEqual([hello.documentId, hello.session, hello.reload], [server.frames[0].documentId, { id: "s-1", secret }, true]);
  assert.deepEqual(hello.calls, [{ callId: "c1", attempt: 2, state: "done" }, { callId: "c2", attempt: 1, state: "started" }]);
  assert.deepEqual([old.work.c1.signal.reason.message, old.work.c2.signal.aborted], ["superseded", false]);
  const { attempt, result } = server.sent("tool.result").at(-1);
  assert.deepEqual([attempt, result], [2, "the second's"]);
});

/** A page with a call that is started, in the cache; and another one there meanwhile, with another call done. */
async function twoDocuments(t, storage, server) {
  const first = browser(t, { storage });
  await workingPage(server);
  first.fire("pagehide", { persisted: true });
  const second = browser(t, { storage });
  const next = await workingPage(server);
  server.call({ callId: "c2" });
  await rest();
  next.work.c2.resolve("the second's");
  await rest();
  return { first, second };
}

test("a page is shown again before the other one is left, as browsers have it: it waits a moment for that", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const storage = {};
  const server = makeServer();
  const { first, second } = await twoDocuments(t, storage, server);
  first.fire("pageshow", { persisted: true });
  await rest();
  assert.equal(server.sockets.length, 2);
  second.fire("pagehide", { persisted: true });
  t.mock.timers.tick(50);
  await rest();
  assert.deepEqual([lastHello(server).reload, lastHello(server).calls.map(({ callId }) => callId)], [true, ["c2"]]);
  assert.equal(server.sent("tool.result").at(-1).result, "the second's");
  assert.deepEqual([marks(storage), kept(storage)[0].session.secret], [[], "secret-3"]);
});

test("behaviour 5: a page that is left late takes nothing away from the one that is shown, and marks nothing", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const storage = {};
  const server = makeServer();
  const { first, second } = await twoDocuments(t, storage, server);
  first.fire("pageshow", { persisted: true });
  await rest();
  t.mock.timers.tick(50);
  await rest();
  assert.equal(lastHello(server).reload, false);
  second.fire("pagehide", { persisted: true });
  await rest();
  assert.deepEqual([marks(storage), kept(storage)[0].session.secret], [[], "secret-3"]);
});

test("a mark that comes while a page is on its way back goes with its welcome", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const storage = {};
  const server = makeServer();
  const { first, second } = await twoDocuments(t, storage, server);
  let welcome;
  server.answers.hello = (hello, socket) => (welcome = () => server.welcome(hello, socket));
  first.fire("pageshow", { persisted: true });
  await rest();
  t.mock.timers.tick(50);
  await rest();
  second.fire("pagehide", { persisted: true });
  assert.equal(marks(storage).length, 1);
  welcome();
  await rest();
  assert.deepEqual([marks(storage), kept(storage)[0].session.secret], [[], "secret-3"]);
});

// ---- where nothing can be kept ----------------------------------------------------------------

const deny = () => {
  throw new DOMException("no", "QuotaExceededError");
};
const STORAGES = {
  "is forbidden": new Proxy({}, { get: deny, set: deny, ownKeys: deny, deleteProperty: deny }),
  "is full": new Proxy({}, { set: deny }),
  "has something else in our place": new Proxy({ "handspan.kept[]0 ws://host.test/": "{not ours" }, {}),
};

for (const [how, storage] of Object.entries(STORAGES))
  test(`P14: a tab whose storage ${how} works, and is told nothing of it`, async (t) => {
    const server = makeServer();
    server.answers["tool.result"] = { status: "applied" };
    const first = browser(t, { storage });
    const { work, problems } = await workingPage(server);
    server.call();
    await rest();
    work.c1.resolve(1);
    await back(server);
    assert.equal(server.sent("tool.result")[0].result, 1);
    first.leave();
    browser(t, { storage });
    const { bridge } = await openPage({}, server);
    assert.deepEqual([bridge.status, problems], ["open", []]);
  });

test("P14: where the tab cannot be opened the page works, and it is tried again", async (t) => {
  const server = makeServer();
  const window = browser(t, { storage: {} });
  const { addEventListener } = globalThis;
  globalThis.addEventListener = deny;
  const { bridge, problems } = await openPage({}, server);
  assert.deepEqual([bridge.status, problems], ["open", []]);
  globalThis.addEventListener = addEventListener;
  await back(server);
  window.look(false);
  await rest();
  assert.equal(server.sent("visibility").length, 1);
});
