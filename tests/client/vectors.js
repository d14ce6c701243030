/** The cases that both ends read: protocol/vectors/*.jsonl. */

import { readFileSync } from "node:fs";

export const vectors = (name) =>
  readFileSync(new URL(`../../protocol/vectors/${name}.jsonl`, import.meta.url), "utf8")
    .trim()
    .split("\n")
    .map((line) => ({ line, ...JSON.parse(line) }));
