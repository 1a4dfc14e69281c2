// New calls at the top of the list of the newest ones.
const MOST_ROWS = 500;

export function followCalls(stream) {
  const list = document.getElementById("calls");
  if (!list) return;
  stream.on("call", ({ seq, html }) => {
    const template = document.createElement("template");
    template.innerHTML = html; // made by the server, with everything in it escaped
    const row = template.content.querySelector("tr");
    const old = document.getElementById(`call-${seq}`);
    if (old) {
      old.replaceWith(row);
    } else {
      const next = [...list.rows].find((other) => Number(other.id.slice(5)) < seq);
      list.insertBefore(row, next ?? null);
    }
    document.getElementById("empty")?.remove();
    row.classList.add("fresh");
    setTimeout(() => row.classList.remove("fresh"), 1500);
    while (list.rows.length > MOST_ROWS) list.rows[list.rows.length - 1].remove();
  });
}
