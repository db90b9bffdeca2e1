// Numbers with their units, times in the reader's zone. Money arrives in millionths, carbon in grams.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

export const number = (value) => (Math.abs(value) >= 100 ? whole.format(value) : fine.format(value));
export const money = (micros) => number((micros ?? 0) / 1e6);
export const kilograms = (grams) => number((grams ?? 0) / 1000);
export const devices = (milli) => fine.format((milli ?? 0) / 1000);
export const percent = (ratio, digits = 2) => (ratio * 100).toFixed(digits);
export const time = (seconds) => clockFormat.format(seconds * 1000);
export const shortTime = (seconds) => shortFormat.format(seconds * 1000);
export const day = (seconds) => dayFormat.format(seconds * 1000);
export const count = (value, word) => `${whole.format(value)} ${word}${value === 1 ? "" : "s"}`;

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.round((s % 86400) / 3600)} h`;
}

// The middle of a forecast, then what holds one case in two and nine in ten; a day is named where it is not today.
export function ranges(said) {
  const at = (seconds) =>
    day(seconds) === day(Date.now() / 1000) ? shortTime(seconds) : `${day(seconds)} ${shortTime(seconds)}`;
  return `${at(said.middle_s)} (one in two ${at(said.low_s)} to ${at(said.high_s)}, nine in ten ` +
    `${at(said.lowest_s)} to ${at(said.highest_s)})`;
}

// Plotly shows dates as they are written, so write them in the reader's zone.
export function localStamp(seconds) {
  const at = new Date(seconds * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
