// Keeps a page up to date: replaces the parts that the server has rendered again. All data in them was
// escaped by the server, and the page's policy runs no other script.
(() => {
  "use strict";
  const state = document.getElementById("state");
  const shape = document.body.dataset.shape;
  const shown = new Map();
  let failures = 0;

  function show(data) {
    for (const [id, html] of Object.entries(data.parts)) {
      const place = document.getElementById(id);
      if (place && shown.get(id) !== html) {
        place.innerHTML = html;
        shown.set(id, html);
      }
    }
    const limited = data.bottleneck !== null;
    document.getElementById("verdict")?.classList.toggle("limited", limited);
    for (const row of document.querySelectorAll(".row[id]")) {
      const marked = limited && row.id === `node-${data.bottleneck}`;
      row.classList.toggle("bottleneck", marked);
      const mark = row.querySelector(".chip.mark");
      if (mark) mark.hidden = !marked;
    }
    state.textContent = data.ended ? "ended" : "live";
    state.classList.toggle("ended", data.ended);
  }

  async function update() {
    try {
      const answer = await fetch(`data.json${location.search}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const data = await answer.json();
      if (data.shape !== shape) {
        location.reload();
        return;
      }
      failures = 0;
      show(data);
    } catch (error) {
      failures += 1;
      state.textContent = "disconnected";
      state.classList.add("ended");
    }
    if (failures < 30) setTimeout(update, document.hidden ? 5000 : 1000);
  }

  update();
})();
