// Reads JSON lines {name, events} and runs each stream through the verifier of @ag-ui/client.
// Writes one JSON line {name, error} for each: error is null when the stream is valid AG-UI.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../client/package.json", import.meta.url));
const { verifyEvents } = require("@ag-ui/client");
const { from, lastValueFrom, toArray } = require("rxjs");

for await (const line of createInterface({ input: process.stdin })) {
  const { name, events } = JSON.parse(line);
  const error = await lastValueFrom(from(events).pipe(verifyEvents(false), toArray()))
    .then(() => null, ({ message }) => message);
  console.log(JSON.stringify({ name, error }));
}
