// The page: asks for the state once a second and lays it out, a section for each fleet.

const POLL_MS = 1000;
const PATIENCE_MS = 5000;
const SOURCES = { metrics: "metrics", gateway: "the gateway" };
const sections = new Map();
const page = { state: null };

function byId(id) {
  return document.getElementById(id);
}

function drawState(state) {
  page.state = state;
  document.title = `${state.name} · neuronfleet`;
  setText(byId("name"), state.name);
  setText(byId("engine"), engineText(state));
  byId("engine").dataset.engine = state.engine;
  fillPairs(byId("facts"), factsOf(state));
  drawStrips(stripsOf(state));
  drawFleets(state);
}

function engineText(state) {
  if (state.engine !== "emulated") {
    return "real engine: vLLM on CPU; every figure is this machine's, not an accelerator's";
  }
  const pace = known(state.time_scale) ? decimals(state.time_scale, 2) : UNKNOWN;
  const verb = state.time_scale === 1 ? "passes" : "pass";
  return `emulated: ${pace} s of fleet time ${verb} in one second; every figure is in fleet time`;
}

function factsOf(state) {
  const time = state.engine === "emulated" ? "fleet time" : "time";
  const whole = known(state.duration_s) ? ` of ${duration(state.duration_s)}` : "";
  const facts = [
    { label: time, text: `${duration(state.elapsed_s)}${whole}` },
    { label: "endpoint", text: state.endpoint },
    { label: "readings from", text: SOURCES[state.metrics.source] },
  ];
  if (state.budget) facts.push({ label: "budget", ...budgetUse(state.budget) });
  return facts;
}

function budgetUse(budget) {
  const over = budget.used_usd_per_hour > budget.usd_per_hour;
  const text = `${dollars(budget.used_usd_per_hour)} of ${dollarsPerHour(budget.usd_per_hour)}`;
  return { text, tone: over ? "warn" : "" };
}

function stripsOf(state) {
  const strips = [];
  if (state.void.void) {
    const why = state.void.reasons.join("; ") || "no reason given";
    strips.push({ kind: "void", text: `This run is void: ${why}` });
  }
  if (!state.metrics.fresh) {
    const age = known(state.metrics.age_s) ? duration(state.metrics.age_s) : "an unknown time";
    strips.push({ kind: "stale", text: `Metrics stale for ${age}: growth only, no shrinking` });
  }
  return strips;
}

function drawStrips(strips) {
  const shown = new Map([...byId("strips").children].map((node) => [node.dataset.strip, node]));
  const nodes = strips.map(({ kind, text }) => {
    const node = shown.get(kind) ?? html("p", { class: "strip", "data-strip": kind });
    setText(node, text);
    return node;
  });
  const same = nodes.length === shown.size && nodes.every((node) => node.isConnected);
  if (!same) byId("strips").replaceChildren(...nodes);
}

function drawFleets(state) {
  const names = new Set(state.fleets.map((fleet) => fleet.name));
  for (const [name, section] of sections) {
    if (names.has(name)) continue;
    section.root.remove();
    sections.delete(name);
  }
  for (const fleet of state.fleets) {
    if (!sections.has(fleet.name)) sections.set(fleet.name, createSection(fleet));
    drawSection(sections.get(fleet.name), fleet, state);
  }
}

function createSection({ name }) {
  const section = { tiles: new Map() };
  const onHover = (time) => section.charts.forEach((chart) => hoverChart(chart, time));
  section.charts = CHARTS.map((spec) => createChart(spec, onHover));
  section.model = html("span", { class: "model" });
  section.about = html("p", { class: "about" });
  section.tilesRoot = html("div", { class: "tiles" });
  section.replicas = createTable("replicas", "Replicas", REPLICA_COLUMNS);
  section.events = createTable("events", "Events", ["at", "event", "what", "why"]);
  section.root = html(
    "section",
    { class: "fleet", "data-fleet": name },
    html("h2", {}, name, " ", section.model),
    section.about,
    section.tilesRoot,
    html("div", { class: "charts" }, ...section.charts.map((chart) => chart.figure)),
    html("div", { class: "tables" }, section.replicas.section, section.events.section),
  );
  byId("fleets").append(section.root);
  return section;
}

const REPLICA_COLUMNS = ["replica", "variant", "phase", "for", "taken", "detail"];

function drawSection(section, fleet, state) {
  const series = padded(fleet.series);
  const emulated = state.engine === "emulated";
  const view = { fleet: { ...fleet, series }, elapsed: state.elapsed_s, emulated };
  setText(section.model, fleet.model);
  setText(section.about, fleet.variants.map(variantText).join("\n"));
  for (const tile of tilesOf(fleet)) drawTile(section, tile, emulated);
  for (const chart of section.charts) updateChart(chart, view);
  drawTables(section, fleet, state.elapsed_s, emulated);
}

function drawTables(section, fleet, elapsed, emulated) {
  const { replicas, events } = fleet;
  fillTable(
    section.replicas,
    replicaRows(fleet, elapsed),
    capNote(replicas.length, MOST_REPLICAS, "replicas", "no replicas"),
    emulated,
  );
  fillTable(
    section.events,
    eventRows(fleet),
    capNote(events.length, MOST_EVENTS, "events, the newest", "nothing has happened yet"),
    emulated,
  );
}

// A series shorter than its times is unknown from there on.
function padded(series) {
  const fill = (values) => series.t_s.map((_, index) => values[index] ?? null);
  return Object.fromEntries(Object.entries(series).map(([key, values]) => [key, fill(values)]));
}

function variantText(variant) {
  const note = variant.ceiling_note ? ` (${variant.ceiling_note})` : "";
  const price = known(variant.usd_per_hour) ? dollarsPerHour(variant.usd_per_hour) : "price ?";
  const ceiling = `ceiling ${count(variant.ceiling)}${note}`;
  return `${variant.name}: ${variant.instance_type}, ${ceiling}, ${price}`;
}

function tilesOf(fleet) {
  return [loadTile, replicasTile, latencyTile, outputTile, costTile].map((tile) => tile(fleet));
}

function loadTile({ now }) {
  return {
    id: "load",
    title: "Load",
    value: count(now.load),
    beside: `of ${count(now.slots)} slots`,
    pairs: [
      { label: "in flight", text: count(now.in_flight) },
      { label: "queued", text: count(now.queued), tone: now.queued > 0 ? "warn" : "" },
    ],
  };
}

function replicasTile({ now }) {
  const failed = now.replicas.failed;
  return {
    id: "replicas",
    title: "Replicas",
    value: count(now.replicas.serving),
    beside: "serving",
    pairs: [
      { label: "booting", text: count(now.replicas.booting) },
      { label: "draining", text: count(now.replicas.draining) },
      { label: "failed", text: count(failed), tone: failed > 0 ? "warn" : "" },
    ],
  };
}

function latencyTile({ now, objective }) {
  const over = now.ttft_p90_ms > objective.ttft_ms;
  const missed = known(now.attainment) && now.attainment < objective.attainment;
  return {
    id: "latency",
    title: "TTFT P90",
    value: milliseconds(now.ttft_p90_ms),
    beside: `${over ? "above" : ""} objective ${milliseconds(objective.ttft_ms)}`.trim(),
    tone: over ? "warn" : "",
    pairs: [
      { label: "TTFT P50", text: milliseconds(now.ttft_p50_ms) },
      {
        label: `TPOT P50, objective ${milliseconds(objective.tpot_ms)}`,
        text: milliseconds(now.tpot_p50_ms),
      },
      {
        label: `attainment, wanted ${share(objective.attainment)}`,
        text: share(now.attainment),
        tone: missed ? "warn" : "",
      },
    ],
  };
}

function outputTile({ now }) {
  return {
    id: "output",
    title: "Output",
    value: count(now.output_tok_per_s),
    beside: "tok/s",
    pairs: [
      { label: "requests arriving", text: perSecond(now.arrivals_per_s) },
      {
        label: "requests refused",
        text: perSecond(now.refused_per_s),
        tone: now.refused_per_s > 0 ? "warn" : "",
      },
    ],
  };
}

function costTile({ now }) {
  return {
    id: "cost",
    title: "$ per 1M output tokens",
    value: dollars(now.usd_per_million_output_tokens),
    beside: `at load ${count(now.load)}`,
    pairs: [{ label: "instances", text: dollarsPerHour(now.usd_per_hour) }],
  };
}

function drawTile(section, tile, emulated) {
  if (!section.tiles.has(tile.id)) section.tiles.set(tile.id, createTile(section, tile));
  const parts = section.tiles.get(tile.id);
  setText(parts.value, tile.value);
  setText(parts.beside, tile.beside);
  setText(parts.tag, emulated ? "emulated" : "");
  parts.headline.className = `headline ${tile.tone ?? ""}`.trim();
  fillPairs(parts.pairs, tile.pairs);
}

function createTile(section, { id, title }) {
  const value = html("b", {});
  const beside = html("span", {});
  const tag = html("small", { class: "tag" });
  const headline = html("p", { class: "headline" }, value, " ", beside);
  const pairs = html("dl", {});
  const heading = html("h3", {}, title, " ", tag);
  const root = html("section", { class: "tile", "data-tile": id }, heading, headline, pairs);
  section.tilesRoot.append(root);
  return { value, beside, tag, headline, pairs };
}

function fillPairs(list, pairs) {
  while (list.children.length > pairs.length) list.lastChild.remove();
  while (list.children.length < pairs.length) {
    list.append(html("div", {}, html("dt", {}), html("dd", {})));
  }
  pairs.forEach(({ label, text, tone }, index) => {
    const [term, said] = list.children[index].children;
    setText(term, label);
    setText(said, text);
    said.className = tone ?? "";
  });
}

function drawStatus(kind, text) {
  const node = byId("status");
  node.dataset.status = kind;
  document.body.dataset.status = kind;
  setText(node, text);
}

// A finished run may take its server with it: that is no lost connection.
function drawLost(why) {
  if (page.state?.finished) return;
  const seen = page.state ? `; this is ${clock(page.state.elapsed_s)}` : "";
  drawStatus("lost", `connection lost (${why})${seen}`);
}

async function readState() {
  const options = { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) };
  const answer = await fetch("/api/state", options);
  if (!answer.ok) throw new Error(`answer ${answer.status}`);
  return answer.json();
}

async function poll() {
  let state = null;
  try {
    state = await readState();
  } catch (error) {
    drawLost(error.message.startsWith("answer") ? error.message : "no answer");
  }
  if (state) {
    drawState(state);
    drawStatus(...(state.finished ? ["finished", "finished"] : ["live", "live"]));
  }
  setTimeout(poll, POLL_MS);
}

poll();
