// What every page has: the theme, keys that go through a list, and the stream of news from the server.
import { followTurns } from "./calls.js";
import { followQuestions } from "./questions.js";
import { openStream } from "./stream.js";

function prepareTheme() {
  const button = document.getElementById("theme");
  const stored = localStorage.getItem("theme");
  if (stored) document.documentElement.dataset.theme = stored;
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  });
  button.hidden = false;
}

// "5 min ago" becomes "6 min ago"; `show_age` on the server has the same steps.
function updateAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
    const unit = [["min", 60, 60], ["h", 3600, 24], ["d", 86400, 7]].find(([, length, most]) => seconds < length * most);
    if (unit) time.textContent = seconds < unit[1] ? "just now" : `${Math.floor(seconds / unit[1])} ${unit[0]} ago`;
  }
}

function isTyping(target) {
  return target.closest("input, select, textarea, [contenteditable]") !== null;
}

function moveFocus(step) {
  const items = [...document.querySelectorAll("#turns a.what, #questions .question")].filter((item) => item.checkVisibility());
  if (items.length === 0) return;
  const at = items.findIndex((item) => item === document.activeElement || item.contains(document.activeElement));
  const next = at < 0 ? 0 : Math.min(items.length - 1, Math.max(0, at + step));
  items[next].focus();
  items[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "j") moveFocus(1);
  if (event.key === "k") moveFocus(-1);
  const search = document.querySelector("#filters input[type=search]");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  }
});

prepareTheme();
setInterval(updateAges, 30_000);
for (const select of document.querySelectorAll("#filters select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
const stream = openStream(document.body.dataset.stream);
followTurns(stream);
followQuestions(stream);
