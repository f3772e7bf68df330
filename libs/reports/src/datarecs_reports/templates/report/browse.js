"use strict";
for (const box of document.querySelectorAll(".browse")) {
  const body = box.querySelector("tbody"), rows = Array.from(body.rows), heads = Array.from(box.querySelectorAll("thead th"));
  const text = box.querySelector("input"), choices = Array.from(box.querySelectorAll("select")), shown = box.querySelector("output");
  const lower = rows.map((row) => row.textContent.toLowerCase());
  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    let count = 0;
    rows.forEach((row, at) => {
      const fits = lower[at].includes(wanted) && choices.every((one) => !one.value || row.cells[Number(one.dataset.column)].textContent.trim() === one.value);
      row.hidden = !fits;
      count += fits ? 1 : 0;
    });
    shown.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows shown`;
  };
  const number = (cell) => {
    const value = cell.replace(/,/g, "");
    return /^[+-]?\d+(\.\d+)?$/.test(value) ? Number(value) : NaN;
  };
  const compare = (one, other) => {
    const a = number(one), b = number(other);
    if (!Number.isNaN(a) && !Number.isNaN(b)) return a - b;
    if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1;
    return one < other ? -1 : one > other ? 1 : 0;
  };
  const sort = (column) => {
    const up = heads[column].getAttribute("aria-sort") !== "ascending";
    heads.forEach((head, at) => head.setAttribute("aria-sort", at === column ? (up ? "ascending" : "descending") : "none"));
    const keys = new Map(rows.map((row) => [row, row.cells[column].textContent.trim()]));
    body.append(...rows.slice().sort((a, b) => (up ? 1 : -1) * compare(keys.get(a), keys.get(b))));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.append(button);
    head.setAttribute("aria-sort", "none");
  });
  text.addEventListener("input", filter);
  choices.forEach((one) => one.addEventListener("change", filter));
  filter();
  box.querySelector(".controls").hidden = false;
}
