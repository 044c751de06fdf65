// The page as a whole: asks the server how things stand, again and again, and says where it does not answer.
import { ask } from "/page/api.js";
import { chooseDocument, isAnswering, offerDocument, showChoices, startAsking } from "/page/ask.js";
import { showDocuments, startDocuments } from "/page/documents.js";
import { byId, el, setText } from "/page/dom.js";
import { showMemory } from "/page/memory.js";
import { noteTiers } from "/page/places.js";
import { openSettings, settings, startSettings } from "/page/settings.js";

const BUSY_MS = 500, IDLE_MS = 3000, GONE_MS = 2000, HIDDEN_MS = 15000, PATIENCE_MS = 10000;
let timer = 0, round = 0, dropped = "";

function notice(text, button) {
  const box = byId("notice");
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.hidden = !text;
  box.replaceChildren(...(text ? [el("span", {}, text)] : []), ...(button ? [button] : []));
}

function state(kind, text) {
  byId("state").dataset.state = kind;
  setText(byId("state"), text);
}

function showTrouble(error) {
  const keyButton = () => el("button", { type: "button", onclick: openSettings }, "Enter a key");
  if (error.status === 401) {
    state("bad", "no access");
    notice(settings.key ? "The server does not know this key." : "This server needs an API key.", keyButton());
  } else if (error.code === "loading") {
    state("wait", `loading the model, ${Math.round(100 * (error.progress || 0))}%`);
    notice("");
  } else if (error.code === "draining") {
    state("wait", "shutting down");
    notice("The server is shutting down: it takes no more questions.");
  } else {
    state("bad", "no answer");
    const gone = !error.status;
    notice(gone ? "The server does not answer. Trying again until it does; nothing you wrote is lost." : error.message);
  }
}

async function look() {
  clearTimeout(timer);
  const mine = ++round; // a later look makes this one's answer old
  let wait = IDLE_MS;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const [documents, capacity] = await Promise.all([ask("GET", "/v1/documents", { signal }),
                                                    ask("GET", "/v1/capacity", { signal })]);
    if (mine !== round) return;
    setText(byId("model"), capacity.model);
    state(capacity.draining ? "wait" : "ready", capacity.draining ? "shutting down" : "ready");
    notice("");
    noteTiers(capacity);
    showDocuments(documents.data);
    showChoices(documents.data);
    showMemory(capacity);
    if (documents.data.some((d) => d.name === dropped)) {
      offerDocument(dropped);
      dropped = "";
    }
    if (isAnswering() || documents.data.some((d) => d.state === "reading")) wait = BUSY_MS;
  } catch (error) {
    if (mine !== round) return;
    showTrouble(error);
    wait = GONE_MS;
  }
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : wait);
}

startSettings(look);
startDocuments({
  chosen: chooseDocument,
  changed(name) {
    dropped = name || dropped;
    look();
  },
});
startAsking({ failed: showTrouble, ended: look });
document.addEventListener("visibilitychange", () => document.hidden || look());
look();
