/**
 * A server that is small but real: it greets, answers every command, and says whatever a test has it
 * say. Sockets open and frames arrive in their own tasks, as in a browser.
 */

import { after } from "node:test";
import { connect } from "../../bridge/handspan/client/handspan.js";
import "../../bridge/handspan/client/shell/tab.js"; // is loaded lazily: the first test would wait longer

delete globalThis.sessionStorage; // newer Nodes have one

/** Lets everything that is under way come to rest; no clock is involved. */
export async function rest(rounds = 12) {
  for (let round = 0; round < rounds; round++) await new Promise((go) => setImmediate(go));
}

export class FakeServer {
  /** Every socket that was ever opened, in order. */
  sockets = [];
  /** Every frame that a page has sent, with the socket it came over. */
  frames = [];
  /** What is answered, by type: a result, or a function of the frame (undefined: no answer, Error: refused). */
  answers = { "tool.started": { status: "go" }, "tool.result": { status: "applied" } };
  limits = {};
  heartbeatMs = 20_000;
  epoch = "e1";
  /** Sockets open by themselves. */
  accepting = true;
  sessions = 0;

  WebSocket = makeSocketClass(this);

  get socket() {
    return this.sockets.at(-1);
  }

  /** The frames of a type, newest last. */
  sent(type) {
    return this.frames.filter((frame) => frame.type === type);
  }

  push(...frames) {
    for (const frame of frames) this.socket.deliver(frame);
  }

  /** Events of thread t1, in one frame. */
  events(events, { threadId = "t1", offset = (this.offset = (this.offset ?? 0) + events.length), epoch = this.epoch } = {}) {
    this.push({ type: "events", threadId, epoch, offset, events });
  }

  call(fields = {}) {
    const call = {
      type: "tool.call",
      callId: "c1",
      attempt: 1,
      threadId: "t1",
      runId: "r1",
      depth: 0,
      name: "t",
      args: {},
      rawArgs: "{}",
      timeoutMs: 60_000,
      revision: 1,
      ...fields,
    };
    this.push(call);
    return call;
  }

  snapshot(fields = {}) {
    return {
      type: "snapshot",
      threadId: "t1",
      epoch: this.epoch,
      offset: this.offset ?? 0,
      messages: [],
      state: {},
      run: null,
      lastRun: null,
      calls: [],
      open: { messages: [], reasoning: [], calls: [], steps: [], subagents: [] },
      suggestions: [],
      ...fields,
    };
  }

  receive(frame, socket) {
    this.frames.push(frame);
    if (frame.type === "hello") return this.greet(frame, socket);
    const answer = this.answers[frame.type] ?? {};
    const result = typeof answer === "function" ? answer(frame) : answer;
    if (frame.id === undefined || result === undefined) return;
    if (result instanceof Error) {
      const { code, message } = result;
      socket.deliver({ type: "reply", id: frame.id, error: { code, message } });
    } else socket.deliver({ type: "reply", id: frame.id, result });
  }

  greet(hello, socket) {
    if (this.answers.hello) return this.answers.hello(hello, socket);
    this.welcome(hello, socket);
  }

  welcome(hello, socket, { resumed = !!hello.session, ...more } = {}) {
    const id = resumed ? hello.session.id : `s-${++this.sessions}`;
    socket.deliver({
      type: "welcome",
      protocol: 1,
      session: { id, secret: `secret-${this.sockets.length}` },
      resumed,
      agents: ["default"],
      limits: this.limits,
      heartbeatMs: this.heartbeatMs,
      threads: (hello.threads ?? []).map(({ threadId }) => ({ threadId })),
      tools: { accepted: [], rejected: [] },
      ...more,
    });
    for (const { threadId, epoch } of hello.threads ?? [])
      if (epoch !== this.epoch) socket.deliver(this.snapshot({ threadId, ...this.snapshots?.[threadId] }));
  }
}

export const refusal = (code, message = code) => Object.assign(new Error(message), { code });

function makeSocketClass(server) {
  return class FakeSocket {
    readyState = 0;
    closedWith = undefined;

    constructor(url, protocol) {
      Object.assign(this, { url, protocol });
      server.sockets.push(this);
      if (server.accepting) setImmediate(() => this.open());
    }

    open() {
      if (this.readyState !== 0) return;
      this.readyState = 1;
      this.onopen?.({});
    }

    send(text) {
      if (this.readyState !== 1) throw new Error("the socket is not open");
      const frame = JSON.parse(text);
      setImmediate(() => server.receive(frame, this));
    }

    /** A frame, or a text that is none, on its way to the page. */
    deliver(frame) {
      const data = typeof frame === "object" ? JSON.stringify(frame) : frame;
      if (this.readyState === 1) setImmediate(() => this.onmessage?.({ data }));
    }

    /** The page closes it. */
    close(code) {
      this.readyState = 3;
      this.closedWith = code ?? 1005;
    }

    /** The server, or the network, closes it. */
    drop(code = 1006) {
      if (this.readyState === 3) return;
      this.readyState = 3;
      this.onclose?.({ code });
    }
  };
}

/**
 * A document of a browser's tab, as far as the library sees it: events, storage, frames. Torn down with
 * the test, or when it is left.
 */
export function browser(t, { visible = true, storage, window: frame } = {}) {
  const window = new EventTarget();
  const document = { visibilityState: visible ? "visible" : "hidden" };
  const names = {
    document,
    addEventListener: window.addEventListener.bind(window),
    location: { href: "https://shop.test/cart?x#y" },
    [Symbol.for("handspan.kept")]: undefined,
    ...(storage && { sessionStorage: storage }),
    ...(frame && { window: frame }),
  };
  const before = Reflect.ownKeys(names).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);
  for (const name of Reflect.ownKeys(names)) Object.defineProperty(globalThis, name, { value: names[name], configurable: true, writable: true });
  const close = () => {
    for (const [name, descriptor] of before.splice(0))
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
  };
  t.after(close);
  const fire = (type, fields) => window.dispatchEvent(Object.assign(new Event(type), fields));
  return {
    fire,
    close,
    /** As a reload or a navigation does. */
    leave() {
      fire("pagehide", { persisted: false });
      close();
    },
    look(visible) {
      document.visibilityState = visible ? "visible" : "hidden";
      fire("visibilitychange"); // it bubbles up from the document
    },
  };
}

const pages = [];

/** Heartbeats would keep the process alive. */
after(() => pages.forEach((bridge) => bridge.close()));

/** A page at a fresh server; `problems` gathers what onError hears. */
export function page(options = {}, server = new FakeServer()) {
  const bridge = connect({
    url: "http://host.test/",
    threadId: "t1",
    WebSocket: server.WebSocket,
    backoff: () => 0,
    ...options,
  });
  pages.push(bridge);
  const problems = [];
  bridge.onError((problem) => problems.push(problem));
  return { bridge, server, problems };
}

/** A page that is open and at rest. */
export async function openPage(options, server) {
  const opened = page(options, server);
  await rest();
  return opened;
}

/** What a promise comes to: its value, or its error's code. */
export const outcome = (promise) =>
  promise.then(
    (value) => ({ value }),
    (error) => ({ code: error.code }),
  );
