// Talking to the API. One request of a kind at a time; the session cookie goes with it by itself.

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail || body.title || `status ${status}`);
    this.status = status;
    this.remedy = body.remedy || "";
  }
}

export async function read(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" }, credentials: "same-origin" });
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) location.assign("/login");
  if (!answer.ok) throw new Problem(body, answer.status);
  return body;
}

// What only those may see who stand above tenants: null for the others, and its panel is not shown to them.
export async function readIfMay(path, panel) {
  const found = await read(path).catch((problem) => {
    if (problem.status === 403) return null;
    throw problem;
  });
  document.getElementById(panel).closest(".panel").hidden = found === null;
  return found;
}

export async function send(method, path, value) {
  const answer = await fetch(path, { method, credentials: "same-origin", body: JSON.stringify(value),
    headers: { accept: "application/json", "content-type": "application/json" } });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(body, answer.status);
  return body;
}

// Follow `next` until the list ends; lists of the dashboard fit a few pages.
export async function readAll(path, most = 10000) {
  const items = [];
  let after = "";
  while (items.length < most) {
    const page = await read(`${path}${after && `&after=${encodeURIComponent(after)}`}`);
    items.push(...page.items);
    if (!page.next) break;
    after = page.next;
  }
  return items;
}
