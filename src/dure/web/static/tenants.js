// A colour for each tenant, the same one tomorrow: chosen by the name, moved on only when another name has it.

const HUES = [208, 28, 268, 140, 348, 48, 186, 312, 96, 232, 12, 164];
const taken = new Map();

function hash(text) {
  let value = 2166136261;
  for (const char of text) value = Math.imul(value ^ char.codePointAt(0), 16777619) >>> 0;
  return value;
}

export function learn(names) {
  for (const name of [...names].sort()) {
    if (taken.has(name)) continue;
    const used = new Set(taken.values());
    let index = hash(name) % HUES.length;
    for (let step = 0; used.has(index) && step < HUES.length; step += 1) index = (index + 1) % HUES.length;
    taken.set(name, index);
  }
}

export const names = () => [...taken.keys()].sort();

export function colour(name, dark) {
  if (!taken.has(name)) learn([name]);
  const hue = HUES[taken.get(name)];
  return dark ? `hsl(${hue} 42% 58%)` : `hsl(${hue} 46% 52%)`;
}

export const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
