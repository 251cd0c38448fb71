// A box whose content is wider than itself can be reached and scrolled with the keyboard.
function reach() {
  for (const box of document.querySelectorAll("pre, p:has(math), div.math, .table-wrapper, .output")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", reach);
addEventListener("resize", reach);

// The cells of a file of comma-separated values. Quotes are around cells with commas only.
function cells(text) {
  const split = (part, k) => (k % 2 ? [part] : part.split(","));
  const join = (found, parts) => [...found.slice(0, -1), found.at(-1) + parts[0], ...parts.slice(1)];
  return text.trim().split("\n").map((line) => line.split('"').map(split).reduce(join));
}

// Whether a cell is the number that is asked for, or has the text.
function matches(cell, text) {
  const isNumber = text !== "" && cell !== "" && !isNaN(text) && !isNaN(cell);
  return isNumber ? Number(cell) === Number(text) : cell.toLowerCase().includes(text);
}

// Numbers are in their order, and after them texts and what is empty.
function compare(a, b) {
  const [x, y] = [a, b].map((cell) => (cell === "" ? NaN : Number(cell)));
  if (!isNaN(x) && !isNaN(y)) return x - y;
  return isNaN(x) - isNaN(y) || a.localeCompare(b);
}

// A table of a linked file: a click on a heading sorts it, and a field below each selects lines.
async function sortable(box) {
  const link = [...document.querySelectorAll("a.download")].find((a) => a.href.endsWith("/" + box.dataset.source));
  const answer = await fetch(link.href);
  if (!answer.ok) return; // the link remains
  const [heads, ...lines] = cells(await answer.text());
  const most = 200;
  const wanted = (box.dataset.select + "|".repeat(heads.length)).split("|").slice(0, heads.length);
  let [column, sign] = [heads.indexOf("median"), -1];
  box.innerHTML = '<p role="status"></p><div class="table-wrapper" tabindex="0">' +
    '<table class="docutils"><thead><tr></tr><tr></tr></thead><tbody></tbody></table></div>';
  const [names, fields] = box.querySelectorAll("thead tr");
  const body = box.querySelector("tbody");

  function show() {
    const texts = wanted.map((text) => text.trim().toLowerCase());
    const found = lines.filter((line) => line.every((cell, k) => matches(cell, texts[k])));
    found.sort((a, b) => sign * compare(a[column], b[column]));
    body.replaceChildren(...found.slice(0, most).map((line) => {
      const row = document.createElement("tr");
      for (const cell of line) row.insertCell().textContent = cell;
      return row;
    }));
    const shown = found.length > most ? `the first ${most} of ` : "";
    box.querySelector("p").textContent = `Lines: ${shown}${found.length}`;
    names.querySelectorAll("th").forEach((th, k) => {
      th.ariaSort = k !== column ? "none" : sign > 0 ? "ascending" : "descending";
    });
  }

  heads.forEach((head, k) => {
    const button = document.createElement("button");
    button.textContent = head;
    button.onclick = () => {
      [column, sign] = [k, k === column ? -sign : 1];
      show();
    };
    const field = document.createElement("input");
    field.value = wanted[k];
    field.size = 6;
    field.ariaLabel = `select by ${head}`;
    field.oninput = () => {
      wanted[k] = field.value;
      show();
    };
    const th = document.createElement("th");
    th.scope = "col";
    th.append(button);
    names.append(th);
    fields.insertCell().append(field);
  });
  show();
  reach();
}
addEventListener("load", () => document.querySelectorAll(".sortable").forEach(sortable));
