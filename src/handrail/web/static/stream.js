// The stream of server-sent events. The browser reconnects by itself while the server answers; we go on when it gave up.
const RETRY = 2000;

export function openStream(address) {
  const handlers = [];
  let last = "";
  const connect = () => {
    const url = new URL(address, location.href);
    if (last) url.searchParams.set("since", last);
    const source = new EventSource(url);
    source.addEventListener("open", () => report(""));
    source.addEventListener("error", () => {
      report("The server does not answer. Trying again…");
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY);
      explain();
    });
    for (const [kind, handle] of handlers) {
      source.addEventListener(kind, (event) => {
        if (event.lastEventId) last = event.lastEventId;
        handle(JSON.parse(event.data));
      });
    }
  };
  setTimeout(connect, 0); // after everybody has said what they listen to
  return { on: (kind, handle) => handlers.push([kind, handle]) };
}

// A server that was started again does not know our cookie.
async function explain() {
  try {
    const response = await fetch("/approvals", { method: "HEAD" });
    if (response.status === 401) report("The server was started again. Open the address that it printed.");
  } catch {
    // it does not answer at all, which was said
  }
}

function report(text) {
  const place = document.getElementById("connection");
  if (place.textContent !== text) place.textContent = text;
}

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
