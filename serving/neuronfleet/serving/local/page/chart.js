// Charts: inline SVG that is kept and redrawn in place at each state and each change of width.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 196;
const MARGIN = { left: 46, right: 10, top: 24, bottom: 36 };
const LEAST_SPAN_S = 30;

const SEQUENCES = { label: "sequences", whole: true, text: count };
const REPLICAS = { label: "replicas", whole: true, text: count };
const LATENCY = { label: "ms", text: milliseconds };
const TOKENS = { label: "output tokens per second", text: tokensPerSecond };
const HOURLY = { label: "$ per hour", money: true, text: dollarsPerHour };
const MILLION = { label: "$ per 1M output tokens", money: true, text: costAtLoad };

// A layer: `values` are its numbers, `high` and `low` the edges drawn where they differ from those.
const CHARTS = [
  { id: "load", title: "Load against slots", unit: SEQUENCES, layers: loadLayers },
  { id: "replicas", title: "Replicas by phase", unit: REPLICAS, layers: phaseLayers },
  { id: "ttft", title: "Time to first token", unit: LATENCY, layers: ttftLayers, rule: ttftRule },
  {
    id: "tokens",
    title: "Output",
    unit: TOKENS,
    layers: single("output_tok_per_s", "output", { line: true, fill: true }),
  },
  {
    id: "hour",
    title: "Cost per hour",
    unit: HOURLY,
    layers: single("usd_per_hour", "instances", { line: true, fill: true, stepped: true }),
  },
  {
    id: "million",
    title: "Cost per 1M output tokens",
    unit: MILLION,
    layers: single("usd_per_million_output_tokens", "cost", { line: true }),
  },
];

function single(key, label, marks) {
  return ({ series, now }) => [{ key, label, values: series[key], now: now[key], ...marks }];
}

function loadLayers({ series, now }) {
  const inFlight = series.load.map((load, index) => minus(load, series.queued[index]));
  return [
    { key: "load", label: "load", values: series.load, now: now.load, line: true, fill: true },
    {
      key: "queued",
      label: "of it queued",
      values: series.queued,
      now: now.queued,
      high: series.load.map((load, index) => (known(inFlight[index]) ? load : null)),
      low: inFlight,
      fill: true,
    },
    {
      key: "slots",
      label: "slots",
      values: series.slots,
      now: now.slots,
      line: true,
      stepped: true,
    },
  ];
}

function minus(whole, part) {
  return known(whole) && known(part) ? Math.max(0, whole - part) : null;
}

function phaseLayers({ series, now }) {
  let low = series.t_s.map(() => 0);
  return ["serving", "draining", "booting"].map((key) => {
    const values = series[key];
    const beneath = low;
    const high = values.map((value, index) =>
      known(value) && known(beneath[index]) ? value + beneath[index] : null,
    );
    low = high;
    const marks = { fill: true, stepped: true };
    return { key, label: key, values, now: now.replicas[key], high, low: beneath, ...marks };
  });
}

function ttftLayers({ series, now }) {
  return ["ttft_p90_ms", "ttft_p50_ms"].map((key) => ({
    key,
    label: key === "ttft_p90_ms" ? "P90" : "P50",
    values: series[key],
    now: now[key],
    line: true,
  }));
}

function ttftRule({ objective }) {
  if (!known(objective.ttft_ms)) return null;
  const text = `objective ${milliseconds(objective.ttft_ms)}`;
  return { value: objective.ttft_ms, text, held: ` at P${count(objective.percentile)}` };
}

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function createChart(spec, onHover) {
  const picture = svg("svg", { role: "img", "data-chart": spec.id, height: HEIGHT });
  const groups = ["axes", "marks", "rules", "cursor"].map((name) => svg("g", { class: name }));
  picture.append(...groups);
  const [axes, marks, rules, cursor] = groups;
  const tag = html("small", { class: "tag" });
  const heading = html("h3", {}, spec.title, " ", tag);
  const moment = html("span", { class: "moment" });
  const legend = html("ul", { class: "legend" });
  const caption = html("figcaption", {}, heading, moment, legend);
  const figure = html("figure", { class: "chart" }, caption, picture);
  const chart = { spec, figure, picture, axes, marks, rules, cursor, tag, moment, legend };
  chart.paths = new Map();
  chart.items = new Map();
  chart.hovered = null;
  followPointer(chart, onHover);
  new ResizeObserver(() => drawChart(chart)).observe(picture);
  return chart;
}

function followPointer(chart, onHover) {
  const seen = (event) => {
    if (!chart.frame) return;
    onHover(chart.frame.timeAt(event.clientX - chart.picture.getBoundingClientRect().left));
  };
  chart.picture.addEventListener("pointermove", seen);
  chart.picture.addEventListener("pointerdown", seen);
  chart.picture.addEventListener("pointerleave", () => onHover(null));
}

function updateChart(chart, view) {
  chart.view = view;
  drawChart(chart);
}

function drawChart(chart) {
  const width = chart.picture.clientWidth;
  if (!chart.view || !width) return;
  const { fleet } = chart.view;
  const layers = chart.spec.layers(fleet);
  const rule = chart.spec.rule ? chart.spec.rule(fleet) : null;
  chart.layers = layers;
  chart.frame = frameOf(chart, width, layers, rule);
  drawAxes(chart);
  drawLayers(chart, layers);
  drawMoment(chart);
  drawRule(chart, rule);
  setText(chart.tag, chart.view.emulated ? "emulated" : "");
  chart.picture.setAttribute("aria-label", describe(chart, layers, rule));
}

function frameOf(chart, width, layers, rule) {
  const { series } = chart.view.fleet;
  const from = series.t_s[0] ?? 0;
  const to = Math.max(series.t_s.at(-1) ?? 0, chart.view.elapsed ?? 0, from + LEAST_SPAN_S);
  const highest = Math.max(0, rule?.value ?? 0, ...layers.map((layer) => highestOf(layer)));
  const unit = axisUnit(chart.spec.unit, highest);
  const blank = !rule && !layers.some((layer) => layer.values.some(known));
  const ticks = valueTicks(highest / unit.divide, unit.whole).map((tick) => tick * unit.divide);
  const right = width - MARGIN.right;
  const bottom = HEIGHT - MARGIN.bottom;
  return {
    unit,
    ticks,
    blank,
    right,
    bottom,
    moments: timeTicks(from, to, Math.max(2, Math.floor((right - MARGIN.left) / 70))),
    x: linear(from, to, MARGIN.left, right),
    y: linear(0, ticks.at(-1), bottom, MARGIN.top),
    timeAt: linear(MARGIN.left, right, from, to),
  };
}

function highestOf(layer) {
  return (layer.high ?? layer.values).reduce((most, v) => (known(v) && v > most ? v : most), 0);
}

// Long latencies read better in seconds.
function axisUnit(unit, highest) {
  if (unit === LATENCY && highest >= 10_000) return { label: "seconds", divide: 1000 };
  return { ...unit, divide: 1 };
}

function drawAxes(chart) {
  const { ticks, moments, unit, blank, right, bottom, x, y } = chart.frame;
  const step = ticks[1] / unit.divide;
  const parts = [svg("text", { class: "unit", x: 0, y: 11 }, unit.label)];
  if (blank) {
    const middle = { class: "blank", x: (MARGIN.left + right) / 2, y: (MARGIN.top + bottom) / 2 };
    parts.push(svg("text", middle, "nothing known yet"));
  }
  for (const tick of blank ? [0] : ticks) {
    const at = y(tick);
    const line = { class: tick ? "grid" : "base", x1: MARGIN.left, x2: right, y1: at, y2: at };
    parts.push(svg("line", line));
    const label = tickText(tick / unit.divide, step, unit.money);
    parts.push(svg("text", { class: "value", x: MARGIN.left - 6, y: at + 4 }, label));
  }
  for (const moment of moments) {
    const at = x(moment);
    const edge = at > right - 16 ? " last" : "";
    parts.push(svg("line", { class: "base", x1: at, x2: at, y1: bottom, y2: bottom + 4 }));
    parts.push(svg("text", { class: `time${edge}`, x: at, y: bottom + 16 }, timeText(moment)));
  }
  const label = chart.view.emulated ? "fleet time since the start" : "time since the start";
  parts.push(svg("text", { class: "unit end", x: right, y: bottom + 31 }, label));
  chart.axes.replaceChildren(...parts);
}

function tickText(tick, step, money) {
  const digits = tick ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) : 0;
  const places = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return (money ? "$" : "") + tick.toLocaleString("en-US", places);
}

function timeText(seconds) {
  return seconds ? duration(seconds) : "0";
}

function drawLayers(chart, layers) {
  const { series } = chart.view.fleet;
  const { x, y, right } = chart.frame;
  const kept = thinTogether(
    layers.map((layer) => layer.high ?? layer.values),
    Math.max(120, right - MARGIN.left),
  ).filter((index) => known(series.t_s[index]));
  for (const layer of layers) {
    const high = layer.high ?? layer.values;
    const points = kept.map((index) => ({
      x: x(series.t_s[index]),
      high: known(high[index]) ? y(high[index]) : null,
      low: y(layer.low?.[index] ?? 0),
    }));
    if (layer.fill) pathOf(chart, layer, "fill").setAttribute("d", bandPath(points, layer.stepped));
    if (layer.line) pathOf(chart, layer, "line").setAttribute("d", linePath(points, layer.stepped));
  }
}

function pathOf(chart, layer, mark) {
  const key = `${layer.key} ${mark}`;
  if (!chart.paths.has(key)) {
    const data = { "data-series": layer.key, "data-mark": mark };
    chart.paths.set(key, svg("path", { class: `${mark} ${layer.key}`, ...data }));
    chart.marks.append(chart.paths.get(key));
  }
  return chart.paths.get(key);
}

function drawRule(chart, rule) {
  const parts = [];
  if (rule) {
    const at = chart.frame.y(rule.value);
    const ends = { x1: MARGIN.left, x2: chart.frame.right, y1: at, y2: at };
    parts.push(svg("line", { class: "rule", ...ends }));
    setText(legendItem(chart, "rule", "M1,5H13", null).said, rule.text);
  }
  chart.rules.replaceChildren(...parts);
}

// The legend says the values now or, under the pointer, those of that moment.
function drawMoment(chart) {
  if (!chart.frame) return;
  const { fleet } = chart.view;
  const index = known(chart.hovered) ? nearest(fleet.series.t_s, chart.hovered) : -1;
  const at = index < 0 ? null : fleet.series.t_s[index];
  setText(chart.moment, index < 0 ? "now" : `at ${clock(at)}`);
  for (const layer of chart.layers) {
    const value = index < 0 ? layer.now : layer.values[index];
    const load = index < 0 ? fleet.now.load : fleet.series.load[index];
    setText(layerItem(chart, layer).value, chart.spec.unit.text(value, load));
  }
  const x = index < 0 ? 0 : chart.frame.x(at);
  const line = svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: chart.frame.bottom });
  chart.cursor.replaceChildren(...(index < 0 ? [] : [line]));
}

function layerItem(chart, layer) {
  const line = layer.line ? `M1,${layer.fill ? 1 : 5}H13` : null;
  const item = legendItem(chart, layer.key, line, layer.fill ? "M0,0H14V10H0Z" : null);
  setText(item.said, layer.label);
  return item;
}

function legendItem(chart, key, line, fill) {
  if (!chart.items.has(key)) {
    const swatch = svg("svg", { class: "swatch", width: 14, height: 10, "aria-hidden": "true" });
    if (fill) swatch.append(svg("path", { class: `fill ${key}`, d: fill }));
    if (line) swatch.append(svg("path", { class: key === "rule" ? key : `line ${key}`, d: line }));
    const item = { said: html("span", {}), value: html("b", {}) };
    chart.legend.append(html("li", {}, swatch, item.said, " ", item.value));
    chart.items.set(key, item);
  }
  return chart.items.get(key);
}

function hoverChart(chart, time) {
  chart.hovered = time;
  drawMoment(chart);
}

function describe(chart, layers, rule) {
  const { fleet, emulated } = chart.view;
  const said = layers.map(
    (layer) => `${layer.label} ${chart.spec.unit.text(layer.now, fleet.now.load)}`,
  );
  if (rule) said.push(rule.text + rule.held);
  return `${chart.spec.title}${emulated ? ", emulated" : ""}, now: ${said.join(", ")}`;
}
