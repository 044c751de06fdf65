// The memory as a picture: what the plan gave to whom, and the cache by what is in it now.
import { byId, bytes, count, el, seconds, setText } from "/page/dom.js";

function shares(c) {
  const m = c.plan, b = c.blocks, block = b.total ? m.kv_bytes / b.total : 0, pinned = b.pinned ?? 0;
  return [
    ["weights", "Weights", m.weights_bytes],
    ["workspace", "Workspace", m.workspace_bytes],
    ["host", "Process and texts", m.host_bytes],
    ...(b.pinned === undefined ? [] : [["pinned", "Cache, pinned", pinned * block]]),
    ["used", "Cache, in use", Math.max(0, b.used - pinned) * block],
    ["cached", "Cache, read before", b.cached * block],
    ["free", "Cache, free", b.free * block],
  ];
}

function make(bar, legend, rows) {
  bar.replaceChildren(...rows.map(([kind]) => el("span", { className: `m-${kind}` })));
  legend.replaceChildren(
    ...rows.map(([kind, name]) => el("li", {}, el("i", { className: `m-${kind}` }), el("span", {}, name), el("b"))));
}

export function showMemory(c) {
  const bar = byId("bar"), legend = byId("legend"), rows = shares(c);
  if (bar.children.length !== rows.length) make(bar, legend, rows);
  rows.forEach(([, , n], i) => {
    bar.children[i].style.flexGrow = n;
    setText(legend.children[i].lastElementChild, bytes(n));
  });
  bar.setAttribute("aria-label", rows.map(([, name, n]) => `${name}: ${bytes(n)}`).join(", "));
  const tokens = c.blocks.tokens, facts = [`room for ${count(c.largest_context_now)} tokens now`];
  if (c.running + c.waiting > 0) facts.push(`${c.running} running, ${c.waiting} waiting`);
  for (const [where, tier] of [["in the host's memory", c.memory], ["on disk", c.disk]])
    if (tier) facts.push(`${where} ${count(tier.kept * tokens)} of ${count(tier.total * tokens)} tokens`);
  if (c.waiting_tokens > 0 && c.prefill_tokens_per_second > 0)
    facts.push(`${seconds((1000 * c.waiting_tokens) / c.prefill_tokens_per_second)} of reading ahead`);
  setText(byId("load"), facts.join(" · "));
}
