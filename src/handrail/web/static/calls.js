// Turns on the timeline: new ones at the top, changed ones in their place; diffs are loaded when they are opened.

export function followTurns(stream) {
  const list = document.getElementById("turns");
  if (!list) return;
  list.addEventListener("toggle", (event) => loadChanges(event.target), true);
  stream.on("turn", ({ calls, html }) => {
    const template = document.createElement("template");
    template.innerHTML = html; // made by the server, with everything in it escaped
    const turn = template.content.querySelector(".turn");
    const old = document.getElementById(turn.id);
    if (old) {
      keepOpen(old, turn);
      old.replaceWith(turn);
    } else {
      const place = [...list.querySelectorAll(".turn")].find((other) => newest(other) < Math.max(...calls));
      list.insertBefore(turn, place ?? null);
    }
    document.getElementById("empty")?.remove();
    turn.classList.add("fresh");
    setTimeout(() => turn.classList.remove("fresh"), 1500);
  });
}

function newest(turn) {
  return Math.max(...[...turn.querySelectorAll(".call")].map((call) => Number(call.id.slice(5))));
}

// What a person has opened stays open, and the focus stays where it is.
function keepOpen(old, turn) {
  for (const details of old.querySelectorAll("details[open]")) {
    const id = details.closest("li")?.id;
    const same = id && turn.querySelector(`#${CSS.escape(id)} > details`);
    if (!same) continue;
    if (details.classList.contains("changes")) same.replaceWith(details);
    else same.open = true;
  }
  const focused = old.contains(document.activeElement) ? document.activeElement.closest("li")?.id : null;
  if (focused) setTimeout(() => document.querySelector(`#${CSS.escape(focused)} a`)?.focus(), 0);
}

async function loadChanges(details) {
  if (!details.open || !details.dataset.src || details.dataset.loaded) return;
  details.dataset.loaded = "1";
  const place = document.createElement("div");
  details.replaceChildren(details.querySelector("summary"), place);
  try {
    const response = await fetch(details.dataset.src);
    place.innerHTML = await response.text(); // made by the server, with everything in it escaped
  } catch {
    place.textContent = "The server does not answer.";
    delete details.dataset.loaded;
  }
}
