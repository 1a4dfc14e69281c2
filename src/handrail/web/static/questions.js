// Open questions: the count on every page, the list on the page of approvals, keys, and notifications.
import { announce } from "./stream.js";

export function followQuestions(stream) {
  const list = document.getElementById("questions");
  let known = null;
  stream.on("questions", async ({ open }) => {
    showCount(open.length);
    const fresh = known === null ? [] : open.filter((id) => !known.includes(id));
    known = open;
    if (fresh.length > 0) {
      announce(`${fresh.length === 1 ? "A new question" : `${fresh.length} new questions`}`);
      notify(fresh.length);
    }
    if (list) await updateList(list, open);
  });
  if (list) {
    list.addEventListener("submit", (event) => { event.preventDefault(); send(event.target, event.submitter); });
    list.addEventListener("keydown", answerByKey);
    prepareNotifications();
  }
}

function showCount(count) {
  const badge = document.getElementById("open-questions");
  badge.textContent = String(count);
  badge.setAttribute("aria-label", `${count} open`);
  badge.hidden = count === 0;
}

async function updateList(list, open) {
  for (const id of open) {
    if (!document.getElementById(`question-${id}`)) {
      const html = await fetchQuestion(id);
      if (html && !document.getElementById(`question-${id}`)) list.append(html);
    }
  }
  for (const article of list.querySelectorAll(".question:not(.ended)")) {
    if (!open.includes(article.dataset.id) && !article.dataset.sending) await end(article);
  }
  document.getElementById("empty").hidden = list.children.length > 0;
}

async function fetchQuestion(id) {
  const response = await fetch(`/approvals/${id}`);
  if (!response.ok) return null;
  const template = document.createElement("template");
  template.innerHTML = await response.text(); // made by the server, with everything in it escaped
  return template.content.querySelector("article");
}

// A question that somebody else has answered stays, with the reason, so that nothing moves under the person's hands.
async function end(article) {
  const over = await fetchQuestion(article.dataset.id);
  close(article, over?.querySelector(".problem")?.textContent ?? "This question needs no answer any more.");
}

function close(article, text) {
  article.classList.add("ended");
  for (const control of article.querySelectorAll("button, input")) control.disabled = true;
  article.querySelector(".outcome").textContent = text;
}

async function send(form, button) {
  const article = form.closest(".question");
  if (article.dataset.sending || article.classList.contains("ended")) return;
  article.dataset.sending = "1";
  const body = new URLSearchParams(new FormData(form));
  body.set("answer", button.value);
  try {
    const response = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/plain" } });
    const text = await response.text();
    if (response.status === 400) article.querySelector(".outcome").textContent = text;
    else close(article, text || `Not answered (${response.status}).`);
  } catch {
    article.querySelector(".outcome").textContent = "The server does not answer. Nothing was sent.";
  } finally {
    delete article.dataset.sending;
  }
}

function answerByKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const article = event.target.closest(".question");
  if (!article || event.target.matches("input[type=text]")) return;
  const button = article.querySelector(`button[data-key="${CSS.escape(event.key)}"]:not(:disabled)`);
  if (!button) return;
  event.preventDefault();
  const reason = article.querySelector("input[name=reason]");
  if (event.key === "n" && reason.value === "" && document.activeElement !== reason) reason.focus();
  else button.form.requestSubmit(button);
}

function prepareNotifications() {
  const button = document.getElementById("notify");
  if (!("Notification" in window) || Notification.permission !== "default") return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    if ((await Notification.requestPermission()) !== "default") button.hidden = true;
  });
}

function notify(count) {
  if (!("Notification" in window) || Notification.permission !== "granted" || document.hasFocus()) return;
  const text = count === 1 ? "A call waits for your answer" : `${count} calls wait for your answer`;
  const shown = new Notification("Handrail", { body: text, tag: "handrail-questions" });
  shown.addEventListener("click", () => { window.focus(); location.href = "/approvals"; });
}
