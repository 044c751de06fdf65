// Where a document's tokens lie, and the pins that keep them there. A server that has no pins leaves "pinned" out, one that
// does not know where tokens are says so, and then nothing of it is shown.
import { ask } from "/page/api.js";
import { count, el, setText } from "/page/dom.js";

const LOOK_MS = 10000, LOOKED_AT_N = 30; // how old what is shown may be; of how many documents it is asked
const WHERE = { device: "in the cache", memory: "in the host's memory", disk: "on disk" };
const SHORT = { device: "cache", memory: "host", disk: "disk" };

let tiers = ["device"], block = 1; // of this server
let unsupported = false; // it shows pins and takes none: something between here and there

export function noteTiers(capacity) {
  tiers = ["device", ...["memory", "disk"].filter((tier) => capacity[tier])];
  block = capacity.blocks.tokens;
}

const path = (name, act = "") => `/v1/documents/${encodeURIComponent(name)}${act}`;

/** "cache: 1,024 · disk: all": of each tier that there is; "" where that is not known. */
export function placesOf(d) {
  const parts = [];
  for (const [tier, name] of Object.entries(SHORT)) {
    const n = d.tokens_on?.[tier];
    if (typeof n === "number") parts.push(`${name}: ${n === 0 ? "none" : n > d.tokens - block ? "all" : count(n)}`);
  }
  return parts.join(" · ");
}

export const pinOf = (d) => (d.pinned ? `pinned ${WHERE[d.pinned] ?? d.pinned}` : "");

/** Asks about documents of which what is known has grown old or has changed, one after the other; shown(d) gets each. */
export async function lookAtPlaces(data, known, shown) {
  const now = performance.now();
  for (const d of data.slice(0, LOOKED_AT_N)) {
    const last = known.get(d.name), tag = `${d.etag} ${d.state} ${d.hits} ${d.pinned}`;
    if (d.state !== "ready" || d.pinned === undefined || (last?.tag === tag && now - last.at < LOOK_MS)) continue;
    known.set(d.name, { tag, at: now });
    try {
      shown(await ask("GET", path(d.name)));
    } catch {
      return; // gone meanwhile, or the server is: who asks for the list will say so
    }
  }
}

async function send(part, tier) {
  part.choices.hidden = true;
  part.pinner.setAttribute("aria-expanded", "false");
  try {
    await ask("POST", path(part.name, tier ? "/pin" : "/unpin"), { json: tier ? { tier } : {} });
    part.done("", tier ? `${part.name} is pinned ${WHERE[tier]}.` : `${part.name} is not pinned any more.`);
  } catch (error) {
    unsupported ||= error.code === "unknown_route" || error.status === 405;
    const text = unsupported ? "This server has no pins." : error.message;
    part.done(text, `${part.name} was not ${tier ? "pinned" : "unpinned"}: ${text}`);
  }
  (unsupported ? part.pinner.previousElementSibling : part.pinner).focus();
}

function choose(part) {
  const open = part.choices.hidden;
  part.choices.replaceChildren(
    ...tiers.map((tier) => {
      const button = el("button", { type: "button", onclick: () => send(part, tier) }, WHERE[tier]);
      button.setAttribute("aria-label", `Pin ${part.name} ${WHERE[tier]}`);
      return button;
    }));
  part.choices.hidden = !open;
  part.pinner.setAttribute("aria-expanded", String(open));
  if (open) part.choices.firstChild.focus();
}

/** A button that pins and unpins, and the choice of a tier where there are several. done(trouble, said): it was asked. */
export function pinControls(name, done) {
  const part = { name, done, pinned: false };
  part.pinner = el("button", { type: "button", hidden: true });
  part.choices = el("div", { className: "buttons", hidden: true, role: "group", aria: { label: `Where to pin ${name}` } });
  part.pinner.onclick = () => {
    if (part.pinned) send(part, "");
    else if (tiers.length === 1) send(part, tiers[0]);
    else choose(part);
  };
  return part;
}

export function showPin(part, d) {
  part.pinned = Boolean(d.pinned);
  part.pinner.hidden = d.pinned === undefined || d.state === "failed" || unsupported;
  if (part.pinner.hidden || part.pinned) part.choices.hidden = true;
  const choosing = !part.pinned && tiers.length > 1;
  if (choosing && !part.pinner.hasAttribute("aria-expanded")) part.pinner.setAttribute("aria-expanded", "false");
  if (!choosing) part.pinner.removeAttribute("aria-expanded");
  setText(part.pinner, part.pinned ? "Unpin" : "Pin");
  part.pinner.setAttribute("aria-label", `${part.pinned ? "Unpin" : "Pin"} ${d.name}`);
}
