// Documents: a text that is dropped is put under a name made of its file's, and the list says how it is being read.
import { ask, upload } from "/page/api.js";
import { byId, bytes, count, el, seconds, setText } from "/page/dom.js";
import { lookAtPlaces, pinControls, pinOf, placesOf, showPin } from "/page/places.js";

const NAME_CHARS = 100, SNIFF_BYTES = 64 * 1024, SURE_MS = 4000;
const HOW = {
  pdf: "is a PDF, and LongFlash reads texts. pdftotext makes one of it: pdftotext -layout FILE.pdf FILE.txt",
  docx: "is a Word document, and LongFlash reads texts. pandoc makes one of it: pandoc FILE.docx -t plain -o FILE.txt",
  zip: "is an archive, and LongFlash reads texts: unpack it first, and make a text of what is in it.",
  other: "is not a text in UTF-8. For another encoding iconv helps: iconv -f LATIN1 -t UTF-8 FILE.txt > NEW.txt",
  empty: "is empty.",
  unread: "cannot be read by the browser: a folder, or a file that has changed or gone.",
};

const rows = new Map(); // name → {li, name, facts, bar, buttons…}
const looked = new Map(); // name → when it was asked where it lies, and what it was then
let act = { chosen() {}, changed() {} };

/** Letters, digits, dots, underscores and dashes: what the server takes as a name. */
function nameOf(file) {
  const name = file.name.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^-+|-+$/g, "");
  return name.slice(0, NAME_CHARS) || "document";
}

/** What a file is that is no text, as a key of HOW; "" for a text. */
async function whatElse(file) {
  const head = new Uint8Array(await file.slice(0, SNIFF_BYTES).arrayBuffer());
  const begins = (text) => [...text].every((c, i) => head[i] === c.charCodeAt(0));
  if (head.length === 0) return "empty";
  if (begins("%PDF")) return "pdf";
  if (begins("PK\u0003\u0004")) return /\.docx$/i.test(file.name) ? "docx" : "zip";
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
  } catch {
    return "other";
  }
  return head.includes(0) ? "other" : "";
}

function say(text) {
  byId("said").textContent = text;
}

function uploadRow(file) {
  const facts = el("span", { className: "hint" }, "looking at it");
  const bar = el("progress", { max: 1, value: 0, aria: { label: `Sending ${file.name}` } });
  const buttons = el("div", { className: "buttons" });
  const li = el("li", {}, el("span", { className: "name" }, file.name), bar, facts, buttons);
  byId("uploads").append(li);
  return { li, facts, bar, buttons };
}

function failUpload(row, file, text, ...more) {
  row.bar.remove();
  row.facts.className = "failed";
  row.facts.textContent = `${file.name} ${text}`;
  const away = el("button", { type: "button", onclick: () => row.li.remove() }, "Dismiss");
  away.setAttribute("aria-label", `Dismiss the message about ${file.name}`);
  row.buttons.replaceChildren(...more, away);
  say(row.facts.textContent);
}

async function put(file, name, replace) {
  const row = uploadRow(file);
  const what = await whatElse(file).catch(() => "unread");
  if (what) return failUpload(row, file, HOW[what]);
  try {
    await upload(name, file, {
      replace,
      onProgress(share) {
        row.bar.value = share;
        row.facts.textContent = share < 1 ? `sending, ${bytes(share * file.size)} of ${bytes(file.size)}` : "making tokens of it";
      },
    });
    row.li.remove();
    say(`${name} was taken, and is being read.`);
    act.changed(name);
  } catch (error) {
    const again = el("button", { type: "button" }, `Replace ${name}`);
    again.onclick = () => {
      row.li.remove();
      put(file, name, true);
    };
    const more = error.code === "document_exists" ? [again] : [];
    failUpload(row, file, `was not taken: ${error.message}`, ...more);
  }
}

async function remove(row, button) {
  if (!button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Delete for good?";
    button.className = "bad";
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = "Delete";
      button.className = "";
    }, SURE_MS);
    return;
  }
  const next = row.li.nextElementSibling || row.li.previousElementSibling;
  try {
    await ask("DELETE", `/v1/documents/${encodeURIComponent(row.key)}`);
    say(`${row.key} was deleted.`);
    (next?.querySelector("button") || byId("file")).focus();
  } catch (error) {
    trouble(row, error.message, `${row.key} was not deleted: ${error.message}`);
  }
  act.changed("");
}

/** What went wrong with a document, until something goes well; "" for that. */
function trouble(row, text, said) {
  setText(row.trouble, text);
  row.trouble.hidden = !text;
  say(said);
}

function makeRow(key) {
  const row = { key, facts: el("span", { className: "hint" }), bar: el("progress", { aria: { label: `Reading ${key}` } }) };
  row.chooser = el("button", { type: "button", onclick: () => act.chosen(key), aria: { label: `Ask about ${key}` } }, "Ask");
  row.places = el("span", { className: "hint", hidden: true });
  row.trouble = el("span", { className: "failed", hidden: true });
  row.pin = pinControls(key, (text, said) => {
    trouble(row, text, said);
    act.changed("");
  });
  const away = el("button", { type: "button" }, "Delete");
  away.onclick = () => remove(row, away);
  const id = `delete-${rows.size}-${Date.now()}`;
  const name = el("span", { className: "name", id }, key);
  away.setAttribute("aria-describedby", id);
  const buttons = el("div", { className: "buttons" }, row.chooser, row.pin.pinner, away);
  row.li = el("li", {}, name, row.bar, row.facts, row.places, buttons, row.pin.choices, row.trouble);
  return row;
}

function asked(n) {
  if (n === 0) return "not asked yet";
  return n === 1 ? "asked once" : `asked ${count(n)} times`;
}

function facts(d) {
  if (d.state === "failed") return `could not be read: ${d.reason}`;
  const left = d.eta_ms ? `, ${seconds(d.eta_ms)} left` : "";
  if (d.state === "reading") return `reading: ${count(d.tokens_read)} of ${count(d.tokens)} tokens${left}`;
  const parts = [`${count(d.tokens)} tokens`, bytes(d.bytes), asked(d.hits)];
  if (d.pinned) parts.push(pinOf(d));
  if (d.expires) parts.push(`expires in ${seconds(Math.max(0, d.expires * 1000 - Date.now()))}`);
  return parts.join(" · ");
}

function showOne(row, d) {
  if (row.state === "reading" && d.state === "ready") say(`${d.name} was read: ${count(d.tokens)} tokens.`);
  if (row.state === "reading" && d.state === "failed") say(`${d.name} ${facts(d)}`);
  row.state = d.state;
  setText(row.facts, facts(d));
  row.facts.className = d.state === "failed" ? "failed" : "hint";
  row.bar.hidden = d.state !== "reading";
  row.bar.max = Math.max(1, d.tokens);
  row.bar.value = d.tokens_read;
  row.chooser.disabled = d.state === "failed";
  showPin(row.pin, d);
}

function showPlaces(d) {
  const row = rows.get(d.name), text = placesOf(d);
  if (!row) return;
  setText(row.places, text);
  row.places.hidden = !text;
}

/** Rows stay where they are while their documents do: focus is not lost when the list is asked for again. */
export function showDocuments(data) {
  const names = new Set(data.map((d) => d.name));
  for (const [name, row] of rows)
    if (!names.has(name)) {
      row.li.remove();
      rows.delete(name);
      looked.delete(name);
    }
  let added = false;
  for (const d of data) {
    if (!rows.has(d.name)) {
      rows.set(d.name, makeRow(d.name));
      byId("list").append(rows.get(d.name).li);
      added = d.state === "reading";
    }
    showOne(rows.get(d.name), d);
  }
  if (added) byId("list").scrollTop = byId("list").scrollHeight; // what is being read is seen being read
  byId("none").hidden = data.length > 0;
  lookAtPlaces(data, looked, showPlaces);
}

export function startDocuments(actions) {
  act = actions;
  const drop = byId("drop"), file = byId("file");
  const take = (files) => [...files].forEach((f) => put(f, nameOf(f), false));
  file.addEventListener("change", () => {
    take(file.files);
    file.value = "";
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take(event.dataTransfer.files);
  });
}
