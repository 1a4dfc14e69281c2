// What every page has: the theme, keys that go through a list, and the stream of news from the server.
import { followCalls } from "./calls.js";
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
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
    label();
  });
  button.hidden = false;
  label();
}

function isTyping(target) {
  return target.closest("input, select, textarea, [contenteditable]") !== null;
}

function moveFocus(step) {
  const items = [...document.querySelectorAll("#calls a[href^='/calls/'], #questions .question")];
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
});

prepareTheme();
for (const select of document.querySelectorAll("#filters select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
const stream = openStream(document.body.dataset.stream);
followCalls(stream);
followQuestions(stream);
