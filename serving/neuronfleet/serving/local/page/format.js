// Words and numbers. null (or anything that is not a finite number) is unknown: "?", never 0.

const UNKNOWN = "?";

function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function decimals(value, digits) {
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

// 14.2, 14, 1,204
function count(value) {
  if (!known(value)) return UNKNOWN;
  return decimals(value, Math.abs(value) < 100 ? 1 : 0);
}

// 812 ms, 12.4 s
function milliseconds(value) {
  if (!known(value)) return UNKNOWN;
  if (value >= 10_000) return `${decimals(value / 1000, 1)} s`;
  return `${decimals(value, value < 100 ? 1 : 0)} ms`;
}

// $0.0048, $2.27, $1,204
function dollars(value) {
  if (!known(value)) return UNKNOWN;
  if (value !== 0 && Math.abs(value) < 0.1) {
    return `$${value.toLocaleString("en-US", { maximumSignificantDigits: 2 })}`;
  }
  const digits = Math.abs(value) < 1000 ? 2 : 0;
  return `$${value.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })}`;
}

function dollarsPerHour(value) {
  return known(value) ? `${dollars(value)}/h` : UNKNOWN;
}

// The one way a cost per million is said: with the load at which it was measured.
function costAtLoad(value, load) {
  return `${dollars(value)} at load ${count(load)}`;
}

function perSecond(value) {
  if (!known(value)) return UNKNOWN;
  return `${decimals(value, Math.abs(value) < 10 ? 2 : 0)}/s`;
}

function tokensPerSecond(value) {
  return known(value) ? `${count(value)} tok/s` : UNKNOWN;
}

// Rounded down: 99.96 % of requests is not all of them.
function share(value) {
  return known(value) ? `${decimals(Math.floor(value * 1000 + 1e-6) / 10, 1)} %` : UNKNOWN;
}

function twoDigits(value) {
  return String(value).padStart(2, "0");
}

// 13:32, 1:02:05
function clock(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.floor(seconds));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  const rest = twoDigits(whole % 60);
  return hours ? `${hours}:${twoDigits(minutes)}:${rest}` : `${minutes}:${rest}`;
}

// 12 s, 13 min 32 s, 1 h 2 min
function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.round(seconds));
  const parts = [
    [Math.floor(whole / 3600), "h"],
    [Math.floor((whole % 3600) / 60), "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0 s";
  const said = parts.slice(first, first + 2).filter(([amount]) => amount > 0);
  return said.map(([amount, unit]) => `${amount} ${unit}`).join(" ");
}
