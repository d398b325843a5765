// Scales, ticks, thinning and paths: numbers in, numbers and path data out.

function niceStep(rough, whole) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  return whole ? Math.max(1, Math.round(step)) : step;
}

// Ticks from 0 up to the first one at or above `highest`.
function valueTicks(highest, whole) {
  const top = highest > 0 ? highest : 1;
  const step = niceStep(top / 4, whole);
  const steps = Math.max(1, Math.ceil(top / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, index) => index * step);
}

const TIME_STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
];

function timeTicks(from, to, atMost) {
  const rough = (to - from) / atMost;
  const step = TIME_STEPS_S.find((size) => size >= rough) ?? Math.ceil(rough / 86400) * 86400;
  const first = Math.ceil(from / step) * step;
  const length = Math.max(0, Math.floor((to - first) / step) + 1);
  return Array.from({ length }, (_, index) => first + index * step);
}

function linear(from, to, start, end) {
  const slope = (end - start) / (to - from || 1);
  return (value) => start + (value - from) * slope;
}

// Which samples to draw: all of few; of many, the lowest and the highest of each bucket, so that
// a spike of one sample stays, and the first unknown one, so that a gap does too.
function thin(values, atMost) {
  if (values.length <= atMost) return values.map((_, index) => index);
  const buckets = Math.max(1, Math.floor(atMost / 2));
  const kept = new Set([0, values.length - 1]);
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    const from = Math.floor((bucket * values.length) / buckets);
    const to = Math.floor(((bucket + 1) * values.length) / buckets);
    for (const index of extremes(values, from, to)) kept.add(index);
  }
  return [...kept];
}

function extremes(values, from, to) {
  let low = -1;
  let high = -1;
  let gap = -1;
  for (let index = from; index < to; index += 1) {
    if (!known(values[index])) gap = gap < 0 ? index : gap;
    else {
      if (low < 0 || values[index] < values[low]) low = index;
      if (high < 0 || values[index] > values[high]) high = index;
    }
  }
  return [low, high, gap].filter((index) => index >= 0);
}

function thinTogether(manyValues, atMost) {
  const kept = new Set(manyValues.flatMap((values) => thin(values, atMost)));
  return [...kept].sort((left, right) => left - right);
}

// Runs of known points; a point is { x, low, high } in pixels, or { x } where it is unknown.
function runs(points, stepped) {
  const found = [[]];
  for (const point of points) {
    const run = found.at(-1);
    const before = run.at(-1);
    // A step holds its value until the next sample, known or not.
    if (stepped && before) run.push({ ...before, x: point.x });
    if (known(point.high)) run.push(point);
    else if (run.length) found.push([]);
  }
  return found.filter((run) => run.length);
}

function place(x, y) {
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}

function linePath(points, stepped) {
  return runs(points, stepped).map(runLine).join("");
}

function runLine(run) {
  // A lone sample is a stroke of no length, which round caps make a dot.
  const drawn = run.length > 1 ? run : [run[0], run[0]];
  return drawn.map((p, index) => `${index ? "L" : "M"}${place(p.x, p.high)}`).join("");
}

function bandPath(points, stepped) {
  const shapes = runs(points, stepped).map((run) => {
    const back = [...run].reverse().map((p) => `L${place(p.x, p.low)}`);
    const forth = run.map((p, index) => `${index ? "L" : "M"}${place(p.x, p.high)}`);
    return [...forth, ...back].join("") + "Z";
  });
  return shapes.join("");
}

function nearest(times, wanted) {
  let best = -1;
  times.forEach((time, index) => {
    if (best < 0 || Math.abs(time - wanted) < Math.abs(times[best] - wanted)) best = index;
  });
  return best;
}
