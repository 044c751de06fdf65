// Questions: a conversation that begins with a document, answered as a stream that can be stopped.
import { stream } from "/page/api.js";
import { byId, count, el, seconds, setText } from "/page/dom.js";
import { settings } from "/page/settings.js";

const turns = []; // messages of the conversation so far, as the API has them
let running = null; // the AbortController of the answer that is coming
let act = { failed() {}, ended() {} };

function content(question, about) {
  if (turns.length > 0 || !about) return question;
  return [{ type: "file", file: { file_id: about } }, { type: "text", text: question }];
}

function scroll() {
  const talk = byId("talk");
  if (talk.scrollHeight - talk.scrollTop - talk.clientHeight < 120) talk.scrollTop = talk.scrollHeight;
}

function answerView() {
  const view = {
    reasoning: el("div", { className: "reasoning", hidden: true }),
    text: el("div", { className: "text" }),
    bar: el("progress", { aria: { label: "Reading the prompt" }, hidden: true }),
    timings: el("div", { className: "timings" }, "waiting"),
  };
  view.turn = el("div", { className: "turn theirs" }, el("span", { className: "who" }, "Answer"), view.reasoning,
                 view.text, view.bar, view.timings);
  return view;
}

function showProgress(view, p) {
  view.bar.hidden = false;
  view.bar.max = Math.max(1, p.total);
  view.bar.value = p.processed;
  const left = p.eta_ms ? `, ${seconds(p.eta_ms)} left` : "";
  setText(view.timings, `reading: ${count(p.processed)} of ${count(p.total)} tokens${left}`);
}

function take(view, event) {
  if (event.prompt_progress) showProgress(view, event.prompt_progress);
  const delta = event.choices?.[0]?.delta;
  if (delta?.reasoning_content) {
    view.reasoning.hidden = false;
    view.reasoning.append(delta.reasoning_content);
  }
  if (delta?.content) {
    view.bar.hidden = true;
    view.firstMs ??= performance.now() - view.beganMs;
    setText(view.timings, "answering");
    view.text.append(delta.content);
  }
  view.usage = event.usage || view.usage;
  view.times = event.timings || view.times;
  view.finish = event.choices?.[0]?.finish_reason || view.finish;
  scroll();
}

function summary(view, stopped) {
  const parts = [], { usage: u, times: t } = view;
  if (stopped) parts.push("stopped");
  if (view.finish === "length") parts.push("cut at the longest answer");
  if (view.firstMs !== undefined) parts.push(`first word after ${seconds(view.firstMs)}`);
  if (u) {
    const cached = u.prompt_tokens_details?.cached_tokens ?? 0;
    const rate = t?.decode_tokens_per_second ? ` at ${count(t.decode_tokens_per_second)} a second` : "";
    parts.push(`${count(u.completion_tokens)} tokens${rate}`);
    parts.push(`${count(cached)} of ${count(u.prompt_tokens)} prompt tokens from the cache`);
  }
  return parts.join(" · ");
}

function setRunning(controller) {
  const had = document.activeElement;
  running = controller;
  byId("send").hidden = Boolean(controller);
  byId("stop").hidden = !controller;
  byId("about").disabled = Boolean(controller) || turns.length > 0;
  byId("anew").hidden = turns.length === 0 || Boolean(controller);
  byId("talk").setAttribute("aria-busy", String(Boolean(controller)));
  if (had === byId("send") || had === byId("stop")) byId(controller ? "stop" : "question").focus();
}

function request(question, about) {
  const messages = [...turns, { role: "user", content: content(question, about) }];
  const body = { messages, stream: true, stream_options: { include_usage: true }, return_progress: true,
                 max_tokens: settings.maxTokens };
  if (settings.temperature !== "") body.temperature = Number(settings.temperature);
  return body;
}

/** An answer that failed leaves no trace in the conversation, and its question comes back to be asked again. */
async function answer(question, about) {
  const view = answerView(), body = request(question, about), controller = new AbortController();
  const mine = el("div", { className: "turn mine" },
                  el("span", { className: "who" }, about && !turns.length ? `You, about ${about}` : "You"), question);
  byId("talk").append(mine, view.turn);
  byId("talk").scrollTop = byId("talk").scrollHeight;
  view.beganMs = performance.now();
  setRunning(controller);
  let failed = null;
  try {
    for await (const event of stream("/v1/chat/completions", body, controller.signal)) take(view, event);
  } catch (error) {
    failed = error;
  }
  const stopped = failed?.name === "AbortError";
  view.bar.hidden = true;
  setText(view.timings, summary(view, stopped));
  if (failed && !stopped) {
    view.timings.append(el("div", { className: "error" }, failed.message));
    if (!byId("question").value) byId("question").value = question;
    act.failed(failed);
  } else if (settings.followUp && view.text.textContent) {
    turns.push(body.messages.at(-1), { role: "assistant", content: view.text.textContent });
  }
  setRunning(null);
  scroll();
  act.ended();
}

function submit(event) {
  event?.preventDefault();
  const field = byId("question"), question = field.value.trim();
  if (!question || running) return;
  field.value = "";
  answer(question, byId("about").value);
}

function begin() {
  turns.length = 0;
  byId("talk").replaceChildren();
  setRunning(null);
}

export function chooseDocument(name) {
  if (running) return;
  if (byId("about").value !== name) begin();
  byId("about").value = name;
  byId("question").focus();
}

/** What was dropped is what one asks about next, where nothing was asked yet; a conversation is not taken away. */
export function offerDocument(name) {
  if (!byId("talk").hasChildNodes()) byId("about").value = name;
}

export function showChoices(data) {
  const about = byId("about"), had = about.value;
  const names = data.filter((d) => d.state !== "failed").map((d) => d.name);
  const shown = [...about.options].slice(1).map((o) => o.value);
  if (names.join("\n") === shown.join("\n")) return;
  about.replaceChildren(about.options[0], ...names.map((name) => el("option", { value: name }, name)));
  if (names.includes(had)) about.value = had;
  else if (had && !running) begin();
}

export function isAnswering() {
  return Boolean(running);
}

export function startAsking(actions) {
  act = actions;
  byId("composer").addEventListener("submit", submit);
  byId("stop").addEventListener("click", () => running?.abort());
  byId("anew").addEventListener("click", () => {
    begin();
    byId("question").focus();
  });
  byId("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("settings").open) running?.abort();
  });
}
