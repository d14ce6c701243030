/**
 * Puts the page together: a board, and an agent that has hands on it. The library is one import; what a
 * page does with it stands in four places:
 *
 *     tools.js      bridge.tool(...), bridge.context(...)      what the agent can do, and what it knows
 *     controls.js   bridge.runTool(...), abort()               what the visitor presses
 *     saying.js     bridge.run(...)                            what the visitor says
 *     chat.js       bridge.subscribe(...)                      what is seen of it
 *
 * A reload begins the board anew, while the conversation, which the server keeps, goes on. The agent is
 * not misled by its own history: the context `board` tells it before every run what is really there.
 */

import { connect } from "/client/handspan.js";
import { readAddress } from "./address.js";
import { makeAnnouncer } from "./announcer.js";
import { makeBoard } from "./board.js";
import { makeBooking } from "./booking.js";
import { makeChat } from "./chat.js";
import { showColumns } from "./columns.js";
import { makeControls } from "./controls.js";
import { makeCorner } from "./corner.js";
import { byId, write } from "./dom.js";
import { makeGoal } from "./goal.js";
import { makeQuestions } from "./questions.js";
import { makeTheme } from "./theme.js";
import { registerTools } from "./tools.js";

const { threadId, url, problems } = readAddress(location);
const bridge = connect({ threadId, url });

const announce = makeAnnouncer();
const theme = makeTheme();
const board = makeBoard([
  ["Water the ferns", "To do"],
  ["Buy tea", "To do"],
  ["Paint the fence", "Doing"],
  ["Sharpen pencils", "Done"],
]);
const columns = showColumns(board, announce);

const [booking, corner, goal] = [makeBooking(), makeCorner(), makeGoal()];
registerTools(bridge, { board, columns, theme, booking, corner, goal });

const chat = makeChat(makeQuestions(bridge, announce), announce);
const controls = makeControls(bridge, { board, theme, chat, announce });

problems.forEach((problem) => chat.note(problem));
bridge.onError(({ code, message }) => chat.note(`${message || "something went wrong"} (${code})`));

const WORDS = {
  connecting: "connecting…",
  open: "connected",
  reconnecting: "reconnecting…",
  closed: "closed",
};

bridge.subscribe(({ messages, ...rest }) => {
  // What was asked for and is not there yet is shown by saying.js: it can be taken back.
  const view = { ...rest, messages: messages.filter(({ pending }) => !pending) };
  const { status, lastRun } = view;
  document.body.dataset.status = status;
  document.body.dataset.lastRun = lastRun?.result?.reason ?? lastRun?.error?.code ?? "";
  write(byId("status-words"), WORDS[status]);
  chat.show(view);
  controls.show(view);
});
