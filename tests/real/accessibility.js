// Small checks of our own: names, labels, landmarks, order of headings, contrast. Returns what is wrong.
() => {
  const wrong = [];
  const visible = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
  const name = (e) => (e.getAttribute("aria-label") || e.textContent || e.getAttribute("title") || "").trim();
  if (!document.documentElement.lang) wrong.push("no language");
  for (const tag of ["main", "nav", "header", "footer"]) if (document.querySelectorAll(`body > ${tag}, body > * > ${tag}`).length < 1) wrong.push(`no ${tag}`);
  if (document.querySelectorAll("h1").length !== 1) wrong.push(`${document.querySelectorAll("h1").length} h1`);
  for (const e of document.querySelectorAll("a[href], button")) if (!name(e) && !e.closest("dialog:not([open])")) wrong.push(`no name: ${e.outerHTML.slice(0, 90)}`);
  for (const e of document.querySelectorAll("input:not([type=hidden]), select")) if (!e.labels || !e.labels.length) wrong.push(`no label: ${e.outerHTML.slice(0, 90)}`);
  for (const e of document.querySelectorAll("svg")) if (e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label"))) wrong.push(`picture without a name: ${e.outerHTML.slice(0, 90)}`);
  for (const e of document.querySelectorAll("thead th")) if (!e.getAttribute("scope") || !name(e)) wrong.push(`heading cell: ${e.outerHTML.slice(0, 90)}`);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice: #${id}`);
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const ground = (e) => { for (let at = e; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); if (c[3] > 0.9) return c; } return [255, 255, 255, 1]; };
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || seen.has(e) || !visible(e) || e.closest("svg, option, script, dialog, .unseen")) continue;
    seen.add(e);
    const a = light(rgba(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(2)}: ${e.outerHTML.slice(0, 90)}`);
  }
  return wrong;
}
