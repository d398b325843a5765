// Elements, and tables whose rows are kept as long as what they show exists.

const MOST_EVENTS = 40;
const MOST_REPLICAS = 60;

function html(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Touches only what differs, so that a selection or a screen reader is left in peace.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function createTable(name, title, columns) {
  const heads = columns.map((column) => html("th", { scope: "col" }, column));
  const body = html("tbody", {});
  const note = html("p", { class: "note" });
  const tag = html("small", { class: "tag" });
  const heading = html("h3", {}, title, " ", tag);
  const head = html("thead", {}, html("tr", {}, ...heads));
  const table = html("table", { "data-table": name }, head, body);
  const section = html("section", { class: name }, heading, table, note);
  return { section, columns, tag, body, note };
}

function fillTable(table, rows, note, emulated) {
  setText(table.tag, emulated ? "emulated" : "");
  while (table.body.rows.length > rows.length) table.body.deleteRow(-1);
  while (table.body.rows.length < rows.length) table.body.append(emptyRow(table.columns));
  rows.forEach((cells, index) => fillRow(table.body.rows[index], cells));
  setText(table.note, note);
}

function emptyRow(columns) {
  return html("tr", {}, ...columns.map((column) => html("td", { "data-label": column })));
}

function fillRow(row, cells) {
  cells.forEach((cell, index) => {
    const node = row.cells[index];
    setText(node, cell.text);
    node.className = cell.tone ?? "";
  });
}

function replicaRows(fleet, elapsed) {
  return fleet.replicas.slice(0, MOST_REPLICAS).map((replica) => [
    { text: replica.name, tone: "name" },
    { text: replica.variant },
    { text: replica.phase, tone: `phase ${replica.phase}` },
    { text: duration(known(replica.since_s) ? elapsed - replica.since_s : null), tone: "number" },
    { text: slotsTaken(replica), tone: "number" },
    { text: replica.detail, tone: "detail" },
  ]);
}

function slotsTaken({ in_flight: taken, ceiling }) {
  return `${count(taken)} of ${count(ceiling)} slots`;
}

function eventRows(fleet) {
  const newest = [...fleet.events].sort((left, right) => right.at_s - left.at_s);
  return newest.slice(0, MOST_EVENTS).map((event) => [
    { text: clock(event.at_s), tone: "number" },
    { text: event.kind, tone: "kind" },
    { text: event.text },
    { text: event.reason ?? "", tone: "detail" },
  ]);
}

function capNote(total, most, what, none) {
  if (!total) return none;
  return total > most ? `${most} of ${count(total)} ${what}` : "";
}
