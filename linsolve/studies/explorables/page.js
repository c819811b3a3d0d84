"use strict";
const page = JSON.parse(document.getElementById("page").textContent);
const element = (id) => document.getElementById(id);
const make = (parent, tag, about = {}) => parent.appendChild(Object.assign(document.createElement(tag), about));
const values = {}, controls = {};

// sliders

const placeOf = (slider, value) => slider.step ? value : Math.log10(value);
const valueAt = (slider, position) => {
  if (slider.step) return Number(position);
  return Math.min(slider.high, Math.max(slider.low, Number((10 ** position).toPrecision(3))));
};

function set(slider, value) {
  values[slider.name] = value;
  const {input, output} = controls[slider.name];
  input.value = placeOf(slider, value);
  output.textContent = String(value);
  input.setAttribute("aria-valuetext", String(value));
}

for (const slider of page.sliders) {
  const label = make(element("controls"), "label");
  const output = make(label, "output");
  make(label, "span", {innerHTML: slider.label});
  const [low, high] = [slider.low, slider.high].map((end) => placeOf(slider, end));
  const step = slider.step || (high - low) / 240;
  const input = make(label, "input", {type: "range", min: low, max: high, step: slider.step ? step : "any"});
  controls[slider.name] = {input, output};
  input.addEventListener("input", () => { set(slider, valueAt(slider, input.value)); redraw(); });
  input.addEventListener("keydown", (event) => {  // a logarithmic slider has no steps of its own
    const way = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
    if (slider.step || !way) return;
    event.preventDefault();
    set(slider, valueAt(slider, placeOf(slider, values[slider.name]) + way * step));
    redraw();
  });
}

// the address holds the values; one that is no number of its slider is named, and the initial value is shown

function read() {
  const given = new URLSearchParams(location.hash.slice(1)), refused = [];
  for (const slider of page.sliders) {
    const text = given.get(slider.name), value = Number(text);
    const fits = text !== null && text.trim() !== "" && value >= slider.low && value <= slider.high;
    if (text !== null && !fits) refused.push(`${slider.name} = ${text} must be from ${slider.low} to ${slider.high}`);
    set(slider, fits ? value : slider.value);
  }
  element("notice").textContent = refused.length ? `The address is not used in full: ${refused.join("; ")}.` : "";
}

const address = () => "#" + page.sliders.map(({name}) => `${name}=${values[name]}`).join("&");
let later;
function remember() {
  clearTimeout(later);
  later = setTimeout(() => history.replaceState(null, "", address()), 200);
}

// numbers

const numberOf = (end) => end === "Infinity" ? Infinity : typeof end === "string" ? values[end] : end;
const resolved = (given) => Object.fromEntries(Object.entries(given).map(([name, v]) => [name, numberOf(v)]));
const keys = Object.keys(page.formulas);
const keyOf = (name, over) => `${name} over ${over}`;
const stepOf = (orbit) => keys.find((key) => key.startsWith(keyOf(orbit.step, "")));

function gridOf({grid: [first, last, scale], points}) {
  const to = {linear: (v) => v, log: Math.log10, odds: (v) => Math.log10(v / (1 - v))}[scale];
  const from = {linear: (v) => v, log: (v) => 10 ** v, odds: (v) => 10 ** v / (1 + 10 ** v)}[scale];
  const [a, b] = [first, last].map((end) => to(numberOf(end))), step = (b - a) / (points - 1);
  return Array.from({length: points}, (_, k) => from(k === points - 1 ? b : k * step + a));
}

function orbitOf(orbit, inputs) {
  const step = formulas[stepOf(orbit)](inputs), found = [];
  let now = formulas[orbit.begin](inputs)();
  for (let k = 0; k <= orbit.steps; ++k) {
    if (k >= orbit.skip) found.push(now);
    now = step(now);
  }
  return found;
}

function pointsOf(panel, curve, grid) {
  const inputs = {...values, ...resolved(curve.given)}, {over} = panel, at = curve.x || over, {orbit} = curve;
  const used = orbit ? [orbit.begin, stepOf(orbit)] : [keyOf(curve.formula || panel.formula, over)];
  const names = used.flatMap((key) => page.formulas[key]).filter((name) => name !== at);
  const about = JSON.stringify([grid[0], grid.at(-1), ...names.map((name) => String(inputs[name]))]);
  if (curve.about === about) return curve.points;  // none of its inputs has changed
  curve.about = about;
  if (orbit) {
    const runs = at === over ? grid : [null];  // a run for each value of the input that varies, or one alone
    curve.points = runs.flatMap((x) => orbitOf(orbit, x === null ? inputs : {...inputs, [over]: x})
      .map((now) => [x ?? now[at], now[curve.y]]));
  } else {
    const formula = formulas[used[0]](inputs);
    curve.points = grid.map((x) => {
      const found = {...formula(x), [over]: x};
      return [found[at], found[curve.y]];
    });
  }
  return curve.points;
}

// axes

function endsOf(axis, drawn, k) {
  let [low, high] = [axis.low, axis.high].map((end) => end === null ? null : numberOf(end));
  if (low === null || high === null) {
    let [least, most] = [Infinity, -Infinity];
    for (const points of drawn) for (const {[k]: v} of points) {
      if (!Number.isFinite(v) || (axis.log && v <= 0)) continue;
      least = Math.min(least, v);
      most = Math.max(most, v);
    }
    if (!(least < most)) [least, most] = least === Infinity ? [1, 2] : axis.log ? [least / 2, least * 2] : [least - 1, least + 1];
    const room = axis.log ? 0 : 0.04 * (most - least);
    low ??= least - room;
    high ??= most + room;
  }
  return low < high ? [low, high] : [low, low + 1];
}

function ticksOf([low, high], log) {
  if (log) {
    const [a, b] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
    const step = Math.max(1, Math.ceil((b - a) / 7));
    return Array.from({length: Math.max(0, Math.floor((b - a) / step) + 1)}, (_, k) => 10 ** (a + k * step));
  }
  const rough = (high - low) / 6, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough), first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({length: count}, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

const digits = {"-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹"};
const labelOf = (tick, log) => {
  if (!log || (tick >= 0.01 && tick <= 1000)) return String(Number(tick.toPrecision(6)));
  return "10" + String(Math.round(Math.log10(tick))).replace(/./g, (c) => digits[c]);
};

// plots

const LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 46;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function draw(panel) {
  const {canvas} = panel, wide = canvas.clientWidth, high = canvas.clientHeight, ratio = Math.max(2, devicePixelRatio);
  if (!wide) return;
  if (canvas.width !== Math.round(wide * ratio)) [canvas.width, canvas.height] = [wide * ratio, high * ratio].map(Math.round);
  const pen = canvas.getContext("2d"), grid = gridOf(panel);
  const drawn = panel.curves.map((curve) => pointsOf(panel, curve, grid));
  const ends = [panel.x, panel.y].map((axis, k) => endsOf(axis, drawn, k));
  const scaled = [panel.x, panel.y].map(({log}, k) => {
    const to = log ? Math.log10 : (v) => v, [a, b] = ends[k].map(to), size = k ? high - TOP - BOTTOM : wide - LEFT - RIGHT;
    return k ? (v) => TOP + size * (b - to(v)) / (b - a) : (v) => LEFT + size * (to(v) - a) / (b - a);
  });
  panel.back = [panel.x, panel.y].map((axis, k) => (pixel) => {
    const share = k ? 1 - (pixel - TOP) / (high - TOP - BOTTOM) : (pixel - LEFT) / (wide - LEFT - RIGHT);
    return ends[k][0] + share * (ends[k][1] - ends[k][0]);
  });
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = color("paper");
  pen.fillRect(0, 0, wide, high);
  pen.font = "13px system-ui, 'DejaVu Sans', sans-serif";
  axes(pen, panel, ends, scaled, wide, high);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, TOP, wide - LEFT - RIGHT, high - TOP - BOTTOM);
  pen.clip();
  if (panel.line) trace(pen, ends[1].map((y) => [values[panel.line], y]), {color: "black", dash: "2 4", width: 1.5}, scaled);
  panel.curves.forEach((curve, k) => trace(pen, drawn[k], curve, scaled));
  if (panel.drag.length) trace(pen, [panel.drag.map((name) => values[name])], {color: "black", dash: "points", width: 10}, scaled);
  pen.restore();
}

function axes(pen, panel, ends, scaled, wide, high) {
  const [right, bottom] = [wide - RIGHT, high - BOTTOM];
  pen.strokeStyle = color("rule");
  pen.fillStyle = color("ink");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.textAlign = "center";
  for (const tick of ticksOf(ends[0], panel.x.log)) {
    const x = scaled[0](tick);
    pen.moveTo(x, TOP);
    pen.lineTo(x, bottom);
    pen.fillText(labelOf(tick, panel.x.log), x, bottom + 17);
  }
  pen.textAlign = "right";
  for (const tick of ticksOf(ends[1], panel.y.log)) {
    const y = scaled[1](tick);
    pen.moveTo(LEFT, y);
    pen.lineTo(right, y);
    pen.fillText(labelOf(tick, panel.y.log), LEFT - 6, y + 4);
  }
  pen.stroke();
  pen.strokeStyle = color("ink");
  pen.strokeRect(LEFT, TOP, right - LEFT, bottom - TOP);
  pen.textAlign = "center";
  pen.fillText(panel.x.label, (LEFT + right) / 2, high - 8);
  pen.save();
  pen.translate(15, (TOP + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(panel.y.label, 0, 0);
  pen.restore();
}

function trace(pen, points, curve, [x, y]) {
  pen.strokeStyle = pen.fillStyle = color(curve.color);
  pen.lineWidth = curve.width;
  if (curve.dash === "points") {
    const half = curve.width / 2;
    for (const p of points) if (Number.isFinite(p[1])) pen.fillRect(x(p[0]) - half, y(p[1]) - half, curve.width, curve.width);
    return;
  }
  pen.setLineDash(curve.dash ? curve.dash.split(" ").map(Number) : []);
  pen.beginPath();
  let on = false;
  for (const p of points) {
    const at = [x(p[0]), Math.max(-1e4, Math.min(1e4, y(p[1])))];
    if (Number.isNaN(at[0]) || Number.isNaN(at[1])) { on = false; continue; }
    if (on) pen.lineTo(...at); else pen.moveTo(...at);
    on = true;
  }
  pen.stroke();
  pen.setLineDash([]);
}

function sample(curve) {
  const line = curve.dash === "points" ? `<rect x="9" y="3" width="6" height="6" fill="var(--${curve.color})"/>`
    : `<line x1="0" y1="6" x2="26" y2="6" stroke="var(--${curve.color})" stroke-width="${curve.width}" stroke-dasharray="${curve.dash}"/>`;
  return `<svg width="26" height="12" aria-hidden="true">${line}</svg>${curve.label}`;
}

for (const panel of page.panels) {
  const figure = make(element("panels"), "figure");
  make(figure, "figcaption", {textContent: panel.title});
  panel.canvas = make(figure, "canvas");
  panel.canvas.setAttribute("role", "img");
  panel.canvas.setAttribute("aria-label", `${panel.title}: ${panel.y.label} against ${panel.x.label}`);
  const legend = make(figure, "ul");
  for (const curve of panel.curves) if (curve.label) make(legend, "li", {innerHTML: sample(curve)});
  if (!panel.drag.length) continue;
  panel.canvas.classList.add("drag");
  const follow = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    panel.canvas.setPointerCapture(event.pointerId);
    [event.offsetX, event.offsetY].forEach((pixel, k) => {
      const slider = page.sliders.find(({name}) => name === panel.drag[k]);
      const value = Math.round(panel.back[k](pixel) / slider.step) * slider.step;
      set(slider, Number(Math.min(slider.high, Math.max(slider.low, value)).toPrecision(6)));
    });
    redraw();
  };
  for (const kind of ["pointerdown", "pointermove"]) panel.canvas.addEventListener(kind, follow);
}

// the page

const codeNow = () => page.code.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));

const shown = (v) => Number.isNaN(v) ? "an undefined number" : Number.isFinite(v) ? String(Number(v.toPrecision(4))) : "∞";

function redraw() {
  const begin = performance.now();
  page.panels.forEach(draw);
  element("readings").replaceChildren();
  for (const {text, formula, output, given} of page.readings) {
    const found = formulas[formula]({...values, ...resolved(given)})()[output];
    make(element("readings"), "li", {textContent: text.replace("{}", shown(found))});
  }
  element("code").textContent = codeNow();
  remember();
  window.lastRedraw = performance.now() - begin;  // milliseconds
}

const copy = (text) => navigator.clipboard.writeText(text).then(
  () => { element("notice").textContent = "Copied."; },
  () => { element("notice").textContent = "The browser does not allow copying; select the text instead."; });
element("copy").addEventListener("click", () => copy(codeNow()));
element("link").addEventListener("click", () => copy(location.href.split("#")[0] + address()));
element("reset").addEventListener("click", () => {
  for (const slider of page.sliders) set(slider, slider.value);
  element("notice").textContent = "";
  redraw();
});
addEventListener("hashchange", () => { read(); redraw(); });
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
for (const [kind, on] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(kind, () => { document.documentElement.classList.toggle("print", on); redraw(); });
}
read();
redraw();
