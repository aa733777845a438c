// News, keys and dialogs. Pages work without it; with it they stay fresh.
"use strict";
(() => {
  const body = document.body;
  const lost = document.getElementById("lost");
  let shown = Number(body.dataset.version);
  let heard = Date.now();
  let wanted = shown;
  let busy = false;

  // --- news: the server says a number, we ask for the page again and take over what has changed --------------------
  const takeOver = (fresh) => {
    for (const old of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(old.id);
      if (!next || next.outerHTML === old.outerHTML) continue;
      const focus = old.contains(document.activeElement) ? document.activeElement : null;
      const key = focus && (focus.getAttribute("href") || focus.id);
      const copy = document.importNode(next, true);
      const row = chosen();
      const place = row && old.contains(row) ? [...old.querySelectorAll("[data-row]")].indexOf(row) : -1;
      old.replaceWith(copy);
      if (place >= 0) copy.querySelectorAll("[data-row]")[place]?.classList.add("chosen");
      if (key) [...copy.querySelectorAll("a, button, input, select")].find((e) => (e.getAttribute("href") || e.id) === key)?.focus({ preventScroll: true });
    }
  };
  const refresh = async () => {
    if (busy || document.hidden || !document.querySelector("main [data-live]")) return;
    busy = true;
    try {
      while (shown !== wanted) {
        const version = wanted; // of news that come meanwhile this page may not know: then it is asked for once more
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (!answer.ok) return;
        takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
        shown = version;
      }
    } finally {
      busy = false;
    }
  };
  new EventSource("/events").onmessage = (message) => {
    heard = Date.now();
    lost.hidden = true;
    wanted = JSON.parse(message.data).version;
    refresh().catch(() => {});
  };
  setInterval(() => {
    if (Date.now() - heard > 5000) {
      lost.textContent = body.dataset.lost;
      lost.hidden = false;
    }
  }, 1000);

  // --- keys ---------------------------------------------------------------------------------------------------------
  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  const chosen = () => document.querySelector("[data-row].chosen");
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(chosen());
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    chosen()?.classList.remove("chosen");
    next.classList.add("chosen");
    next.scrollIntoView({ block: "nearest" });
    next.querySelector("a")?.focus({ preventScroll: true });
  };
  const help = document.getElementById("help");
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-help], [data-dialog]");
    if (!opener) return;
    const dialog = opener.hasAttribute("data-help") ? help : document.getElementById(opener.dataset.dialog);
    if (opener.dataset.key) dialog.querySelector("[name=key]").value = opener.dataset.key;
    if (opener.dataset.key) dialog.querySelector("[data-shows=key]").textContent = opener.dataset.key;
    dialog.showModal();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog[open]")) return;
    const page = document.querySelectorAll(".top nav a")[Number(event.key) - 1];
    if (/^[1-8]$/.test(event.key) && page) page.click();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Enter" && event.target === body) (chosen()?.querySelector("a") || document.querySelector("[data-lead]"))?.click();
    else if (event.key === "/" && document.querySelector("[data-filter]")) document.querySelector("[data-filter]").focus();
    else if (event.key === "t" || event.key === "l") document.querySelector(`.tools [data-key=${event.key}]`)?.click();
    else if (event.key === "?") help.showModal();
    else return;
    event.preventDefault();
  });

  // --- filters: what is typed hides rows at once --------------------------------------------------------------------
  document.addEventListener("input", (event) => {
    if (!event.target.matches("[data-filter]")) return;
    const wanted = event.target.value.toLowerCase();
    for (const row of document.querySelectorAll("tbody [data-row]")) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
})();
