// Building and updating elements. Text only ever goes in as text, so nothing the fleet says can become markup.

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Keep one child of `parent` for each item, in order; children are reused so that focus and scrolling stay.
export function keyed(parent, items, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = old.get(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    old.delete(key);
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of old.values()) child.remove();
}

// `[["b", "12"], " text"]`: small runs of text, some of them emphasised.
export function runs(node, parts) {
  node.replaceChildren(...parts.map((part) => (Array.isArray(part) ? el(part[0], {}, part[1]) : part)));
}
