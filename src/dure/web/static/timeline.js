// Drawing a device's timeline: height is the part of the SMs, width is time; members of a moment stand on each other.

const TOP = 12;
const BOTTOM = 16;
const LEFT = 34;

export function paint(canvas, timeline, windowMs, colourOf) {
  const { pen, width, height, style } = begin(canvas);
  const scale = scales(width, height, timeline.now_ms, windowMs);
  pen.fillStyle = style.getPropertyValue("--free");
  pen.fillRect(LEFT, TOP, width - LEFT, scale.tall);
  hatch(pen, timeline.bubbles, scale, style.getPropertyValue("--warn").trim());
  for (const box of boxes(timeline, scale)) {
    pen.fillStyle = colourOf(box.span.tenant);
    pen.fillRect(box.x, box.y, Math.max(box.width, 0.4), box.height);
  }
  drawSquads(pen, timeline.squads, scale, style);
  drawAxes(pen, scale, width, height, windowMs, style);
}

// The span under a point, for the tip.
export function locate(canvas, timeline, windowMs, x, y) {
  const scale = scales(canvas.clientWidth, canvas.clientHeight, timeline.now_ms, windowMs);
  return boxes(timeline, scale).find((box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height)?.span;
}

export function paintWeights(canvas, points, colourOf) {
  const { pen, width, height, style } = begin(canvas);
  const names = [...new Set(points.slice(-1).flatMap((point) => Object.keys(point.weights)))].sort();
  const first = points[0]?.at_ms ?? 0;
  const span = Math.max((points.at(-1)?.at_ms ?? 0) - first, 1);
  // Logarithmic: equation 3 multiplies.
  const y = (weight) => TOP + (height - TOP - BOTTOM) * (1 - (Math.log10(weight) + 1) / 2);
  const x = (at) => LEFT + ((width - LEFT - 2) * (at - first)) / span;
  pen.font = "9.5px system-ui, sans-serif";
  pen.strokeStyle = style.getPropertyValue("--line");
  pen.fillStyle = style.getPropertyValue("--dim");
  for (const weight of [0.1, 1, 10]) {
    line(pen, LEFT, y(weight), width, y(weight));
    pen.textAlign = "right";
    pen.fillText(String(weight), LEFT - 5, y(weight) + 3);
  }
  pen.textAlign = "left";
  pen.fillText(`weights, ${(span / 1000).toFixed(0)} s of the device's own time`, LEFT, height - 3);
  pen.lineWidth = 1.6;
  for (const name of names) {
    pen.strokeStyle = colourOf(name);
    pen.beginPath();
    for (const point of points) if (name in point.weights) pen.lineTo(x(point.at_ms), y(point.weights[name]));
    pen.stroke();
  }
}

function begin(canvas) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  return { pen, width, height, style: getComputedStyle(document.documentElement) };
}

function scales(width, height, now, windowMs) {
  const from = Math.max(0, now - windowMs);
  const tall = height - TOP - BOTTOM;
  return { from, now, tall, x: (at) => LEFT + ((width - LEFT) * (Math.max(at, from) - from)) / windowMs };
}

// Cut time at every start and end; in each piece stack who runs, in a fixed order of names.
function boxes(timeline, scale) {
  const spans = timeline.spans.filter((span) => span.end_ms > scale.from);
  const edges = [...new Set(spans.flatMap((span) => [Math.max(span.start_ms, scale.from), span.end_ms]))].sort((a, b) => a - b);
  const found = [];
  for (let i = 0; i + 1 < edges.length; i += 1) {
    const [start, end] = [edges[i], edges[i + 1]];
    let height = 0;
    const running = spans.filter((span) => span.start_ms < end && span.end_ms > start)
      .sort((a, b) => (a.tenant < b.tenant ? -1 : 1));
    for (const span of running) {
      const tall = span.share * scale.tall;
      found.push({ span, x: scale.x(start), width: scale.x(end) - scale.x(start), y: TOP + scale.tall - height - tall, height: tall });
      height += tall;
    }
  }
  return found;
}

// SMs that idled though there was work: from the top down, striped.
function hatch(pen, bubbles, scale, colour) {
  pen.save();
  pen.beginPath();
  for (const bubble of bubbles) {
    const x = scale.x(bubble.start_ms);
    if (bubble.end_ms > scale.from) pen.rect(x, TOP, Math.max(scale.x(bubble.end_ms) - x, 0.4), bubble.share * scale.tall);
  }
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  const { width, height } = pen.canvas;
  for (let x = -height; x < width; x += 5) line(pen, x, height, x + height, 0);
  pen.restore();
}

function drawSquads(pen, squads, scale, style) {
  pen.strokeStyle = style.getPropertyValue("--text");
  pen.fillStyle = style.getPropertyValue("--dim");
  pen.font = "9px system-ui, sans-serif";
  pen.textAlign = "left";
  let labelled = -Infinity;
  for (const squad of squads) {
    if (squad.at_ms < scale.from) continue;
    const x = scale.x(squad.at_ms);
    pen.globalAlpha = 0.45;
    line(pen, x, TOP - 4, x, TOP);
    pen.globalAlpha = 1;
    if (x - labelled < 52) continue;
    labelled = x;
    pen.fillText(String(squad.number), x + 2, TOP - 4);
  }
}

function drawAxes(pen, scale, width, height, windowMs, style) {
  pen.fillStyle = style.getPropertyValue("--dim");
  pen.font = "9.5px system-ui, sans-serif";
  pen.textAlign = "right";
  for (const part of [0, 50, 100]) pen.fillText(`${part} %`, LEFT - 4, TOP + scale.tall * (1 - part / 100) + (part === 100 ? 8 : 3));
  for (let back = 0; back <= windowMs; back += windowMs / 4) {
    pen.textAlign = back === 0 ? "right" : back === windowMs ? "left" : "center";
    pen.fillText(back === 0 ? "now" : `-${back} ms`, width - ((width - LEFT) * back) / windowMs, height - 3);
  }
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}
