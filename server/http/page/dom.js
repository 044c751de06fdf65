// Elements and numbers for the eye. Text goes in as text nodes and in no other way: what a document, an answer or a
// name says is never markup.

export const byId = (id) => document.getElementById(id);

/** An element; properties are set as they are named, children that are strings become text. */
export function el(tag, properties = {}, ...children) {
  const { aria = {}, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria)) made.setAttribute(`aria-${name}`, value);
  made.append(...children);
  return made;
}

/** Sets a text only where it changed, so that a screen reader is not told twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const count = (n) => Math.round(n).toLocaleString("en");

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n >= 100 || i === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[i]}`;
}

export function seconds(ms) {
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(2)} s`;
  if (s < 120) return `${s.toFixed(0)} s`;
  if (s < 7200) return `${(s / 60).toFixed(0)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(0)} h` : `${(s / 86400).toFixed(0)} days`;
}
