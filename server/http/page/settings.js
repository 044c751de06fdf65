// Settings: in sessionStorage, so that a key ends with its tab and another tab does not see it.
import { byId } from "/page/dom.js";

const STORE = "longflash";
const fallback = { key: "", maxTokens: 512, temperature: "", followUp: true };

function read() {
  try {
    return { ...fallback, ...JSON.parse(sessionStorage.getItem(STORE)) };
  } catch {
    return { ...fallback };
  }
}

export const settings = read();

function show() {
  byId("key").value = settings.key;
  byId("max-tokens").value = settings.maxTokens;
  byId("temperature").value = settings.temperature;
  byId("follow-up").checked = settings.followUp;
}

function take() {
  settings.key = byId("key").value.trim();
  settings.maxTokens = byId("max-tokens").valueAsNumber || fallback.maxTokens;
  settings.temperature = byId("temperature").value;
  settings.followUp = byId("follow-up").checked;
  try {
    sessionStorage.setItem(STORE, JSON.stringify(settings));
  } catch {
    // a browser that keeps nothing: they hold until the page is left
  }
}

export function openSettings() {
  show();
  byId("settings").showModal();
  byId("key").focus();
}

export function startSettings(onChange) {
  byId("settings-open").addEventListener("click", openSettings);
  byId("settings-close").addEventListener("click", () => byId("settings").close());
  byId("settings-form").addEventListener("submit", (event) => {
    event.preventDefault();
    take();
    byId("settings").close();
    onChange();
  });
}
