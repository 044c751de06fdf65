// The server's API: one place that knows the key, the errors' shape and the events of a stream.
import { settings } from "/page/settings.js";

/** What a request ended with; status 0: nobody answered. */
export class ApiError extends Error {
  constructor(status, error = {}) {
    super(error.message || (status ? `The server answered ${status}.` : "The server does not answer."));
    this.status = status;
    this.code = error.code || "";
    this.progress = error.progress;
  }
}

function headers(more = {}) {
  return settings.key ? { Authorization: `Bearer ${settings.key}`, ...more } : more;
}

function errorOf(status, text) {
  try {
    return new ApiError(status, JSON.parse(text).error);
  } catch {
    return new ApiError(status);
  }
}

async function send(method, path, { json, signal, more } = {}) {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const head = headers({ ...(body ? { "Content-Type": "application/json" } : {}), ...more });
  let response;
  try {
    response = await fetch(path, { method, headers: head, body, signal, cache: "no-store" });
  } catch (error) {
    throw error.name === "AbortError" || error.name === "TimeoutError" ? error : new ApiError(0);
  }
  if (!response.ok) throw errorOf(response.status, await response.text());
  return response;
}

export async function ask(method, path, options) {
  return (await send(method, path, options)).json();
}

/** The JSON of each event until [DONE]. A stream that ends without it is an error: what came is not whole. */
export async function* stream(path, json, signal) {
  const reader = (await send("POST", path, { json, signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ; ) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : new ApiError(0);
    }
    if (piece.done) throw new ApiError(0, { message: "The answer broke off: the server is gone." });
    text += piece.value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ")) continue; // a comment that keeps the connection alive
      if (event === "data: [DONE]") return;
      const data = JSON.parse(event.slice("data: ".length));
      if (data.error) throw new ApiError(500, data.error);
      yield data;
    }
  }
}

/** Puts a text under a name; onProgress gets the share that was sent. XMLHttpRequest, for fetch does not tell that. */
export function upload(name, file, { replace, onProgress }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/v1/documents/${encodeURIComponent(name)}`);
    const more = replace ? { "If-Match": "*" } : {};
    for (const [key, value] of Object.entries(headers({ "Content-Type": "text/plain", ...more })))
      request.setRequestHeader(key, value);
    request.upload.onprogress = (event) => onProgress(event.lengthComputable ? event.loaded / event.total : 0);
    request.onerror = () => reject(new ApiError(0));
    request.onload = () => {
      let body = null;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        // a page of something between here and the server
      }
      if (request.status < 300 && body) resolve(body);
      else reject(errorOf(request.status, request.responseText));
    };
    request.send(file);
  });
}
