// Tables sort by the column that is clicked; numbers by value, a second click turns the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = parseFloat(text.replace(/\s/g, ""));
    return Number.isNaN(number) ? text : number;
  };
  const order = (a, b) =>
    typeof a === typeof b ? (typeof a === "number" ? a - b : a.localeCompare(b))
      : typeof a === "number" ? -1 : 1;
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!head) return;
    const sign = head.dataset.sorted === "1" ? -1 : 1;
    for (const other of head.parentNode.cells) delete other.dataset.sorted;
    head.dataset.sorted = sign;
    const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
    rows.sort((a, b) => sign * order(a[0], b[0]));
    body.append(...rows.map((pair) => pair[1]));
  });
}
