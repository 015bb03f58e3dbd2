"use strict";
// Draws the charts of the page from its JSON, anew whenever the width changes. Texts are set as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NAMESPACE = document.getElementById("blank").namespaceURI; // of SVG
  const alone = data.runs.length === 1;
  const MARGIN = { left: 46, right: 12 };
  const KNOBS = data.panels.filter(panel => !panel.key).length; // the numbers that are tuned come first
  const PANELS = data.panels.map((panel, p) => ({
    ...panel, height: 84 * panel.height, of: panel.key ? t => t[panel.key] : t => t.ran[p],
  }));
  const TPS = PANELS.findIndex(panel => panel.key === "tps"), LAG = PANELS.findIndex(panel => panel.key === "lag");
  if (alone) PANELS[LAG].unit += "; dotted: largest";
  const QUIET = data.quiet; // changed nothing; drawn first and, in a long run, small
  const SHAPES = data.shapes, VERDICTS = Object.keys(SHAPES);
  const SIZES = { start: 3.6, accepted: 4, refused: 3.4, kept: 1.8, returned: 4.2, reopened: 5.5, failed: 4 };
  const RUN_SHAPES = data.runShapes;
  const DASHES = ["", "7 3", "8 3 2 3", "2 2.5", "9 2 2 2 2 2", "1 3"];
  const VIRIDIS = [
    [68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140], [40, 174, 128], [94, 201, 98],
    [173, 220, 48], [253, 231, 37],
  ];

  // --- small things ---

  function add(parent, name, attributes = {}, text) {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  // Hidden from screen readers, who have the table and what the arrow keys say.
  function canvas(parent, width, height) {
    return add(parent, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });
  }

  function shown(value) {
    if (value === null || value === undefined) return "–";
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  // Round numbers from 0 to the largest, about so many.
  function ticks(most, count, whole) {
    const rough = most / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    const factors = whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
    let step = factors.map(factor => factor * power).find(each => each >= rough * 0.999) || 1;
    if (whole) step = Math.max(1, Math.ceil(step));
    const found = [];
    for (let i = 0; i * step <= most * 1.0001; i++) found.push(+(i * step).toPrecision(6));
    return found;
  }

  function shape(kind, x, y, r) {
    const place = ([dx, dy]) => `${(x + dx * r).toFixed(1)} ${(y + dy * r).toFixed(1)}`;
    const at = (...points) => "M" + points.map(place).join("L");
    if (kind === "circle") return `${at([-1, 0])}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
    if (kind === "square") return at([-.9, -.9], [.9, -.9], [.9, .9], [-.9, .9]) + "Z";
    if (kind === "diamond") return at([0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]) + "Z";
    if (kind === "up") return at([0, -1.15], [1.1, .9], [-1.1, .9]) + "Z";
    if (kind === "down") return at([0, 1.15], [1.1, -.9], [-1.1, -.9]) + "Z";
    return at([-1, -1], [1, 1]) + at([-1, 1], [1, -1]);
  }

  const style = index => index % RUN_SHAPES.length;
  const colour = index => `var(--run${style(index)})`;
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

  // Where marks stand in the legend and the tables.
  function drawKeys() {
    for (const node of document.querySelectorAll("[data-mark]")) {
      const svg = add(node, "svg", { width: 14, height: 14, "aria-hidden": true });
      const verdict = node.dataset.mark;
      add(svg, "path", { class: `mark ${verdict}`, d: shape(SHAPES[verdict], 7, 7, SIZES[verdict]) });
    }
    for (const node of document.querySelectorAll("[data-run]")) {
      const index = +node.dataset.run;
      const svg = add(node, "svg", { width: 34, height: 14, "aria-hidden": true });
      const line = { stroke: colour(index), "stroke-width": 2, "stroke-dasharray": DASHES[style(index)] };
      add(svg, "path", { ...line, d: "M0 7H34" });
      add(svg, "path", { d: shape(RUN_SHAPES[style(index)], 17, 7, 4), fill: colour(index), stroke: colour(index) });
    }
  }

  // --- the run over time ---

  const latest = Math.max(1e-9, ...data.runs.flatMap(run => run.trials.map(t => t.to))) / data.unit;
  const most = PANELS.map((panel, p) => {
    let top = 0;
    for (const run of data.runs) {
      for (const t of run.trials) {
        top = Math.max(top, panel.of(t) || 0);
        if (p < KNOBS) top = Math.max(top, t.before[p], t.tried[p]);
        if (p === LAG && alone) top = Math.max(top, t.lagMax || 0, 1.12 * run.lagLimit);
      }
    }
    return p < KNOBS ? Math.max(2, top) : top || 1;
  });

  function layout(width) {
    const right = width - MARGIN.right;
    const x = seconds => MARGIN.left + (seconds / data.unit) / latest * (right - MARGIN.left);
    let top = 0;
    const places = PANELS.map((panel, p) => {
      const y0 = top + 26, y1 = y0 + panel.height;
      top = y1 + 10;
      const least = p < KNOBS ? .5 : 0, high = p < KNOBS ? most[p] + .4 : most[p] * 1.06;
      return { y0, y1, y: value => y1 - (value - least) / (high - least) * panel.height };
    });
    return { right, x, places, height: top + 34, base: top - 10 };
  }

  function drawTime(box) {
    const width = box.clientWidth;
    const plan = layout(width);
    const svg = canvas(box, width, plan.height);
    const times = ticks(latest, Math.max(2, Math.floor(width / 90)), false);
    const { y0 } = plan.places[0];
    if (alone) drawSimulated(svg, plan, data.runs[0]);
    const cursor = add(svg, "rect", { class: "cursor", y: y0, height: plan.base - y0, width: 0 });
    PANELS.forEach((panel, p) => drawFrame(svg, plan, p, times));
    data.runs.forEach((run, index) => drawRun(svg, plan, run, index));
    for (const time of times) {
      add(svg, "text", { x: plan.x(time * data.unit), y: plan.base + 16, "text-anchor": "middle" }, String(time));
    }
    add(svg, "text", { x: plan.right, y: plan.base + 32, "text-anchor": "end" }, `${data.unitName} of the run`);
    return { plan, cursor };
  }

  function drawFrame(svg, plan, p, times) {
    const panel = PANELS[p], { y0, y1, y } = plan.places[p];
    const name = add(svg, "text", { class: "name", x: 0, y: y0 - 9 }, panel.name);
    if (panel.unit) add(name, "tspan", { dx: 8 }, panel.unit);
    let grid = "";
    const count = p >= KNOBS ? panel.height / 28 : most[p] * 14 <= panel.height ? most[p] : panel.height / 20;
    for (const value of ticks(most[p], count, p < KNOBS)) {
      if (p < KNOBS && value === 0) continue;
      grid += `M${MARGIN.left} ${y(value)}H${plan.right}`;
      add(svg, "text", { x: MARGIN.left - 7, y: y(value) + 4, "text-anchor": "end" }, value.toLocaleString("en"));
    }
    for (const time of times) grid += `M${plan.x(time * data.unit)} ${y0}V${y1}`;
    add(svg, "path", { class: "grid", d: grid });
    add(svg, "path", { class: "axis", d: `M${MARGIN.left} ${y0}V${y1}H${plan.right}` });
  }

  // A step for each window; a gap where nothing is known, and where the run was not running.
  function steps(run, plan, p, of, shift = 0) {
    const y = plan.places[p].y;
    let path = "", end = null;
    for (const t of run.trials) {
      const value = of(t);
      if (value === null) { end = null; continue; }
      const joined = end !== null && t.from <= end + 2 * (t.to - t.middle); // a window, without what it took to settle
      path += `${joined ? "L" : "M"}${plan.x(t.from).toFixed(1)} ${(y(value) + shift).toFixed(1)}`;
      path += `H${plan.x(t.to).toFixed(1)}`;
      end = t.to;
    }
    return path;
  }

  // Windows that nobody measured have a ground of their own, one shape for neighbours so that no seams are seen.
  function drawSimulated(svg, plan, run) {
    let path = "";
    run.trials.forEach((t, i) => {
      if (!t.simulated || (i && run.trials[i - 1].simulated)) return;
      let last = i;
      while (run.trials[last + 1]?.simulated) last++;
      const from = plan.x(t.from), to = plan.x(run.trials[last].to);
      for (const { y0, y1 } of plan.places) path += `M${from} ${y0}H${to}V${y1}H${from}Z`;
    });
    add(svg, "path", { class: "simulated", d: path });
  }

  function drawRun(svg, plan, run, index) {
    PANELS.forEach((panel, p) => {
      if (alone) drawAlone(svg, plan, run, panel, p);
      else drawBeside(svg, plan, run, index, panel, p);
    });
  }

  function drawAlone(svg, plan, run, panel, p) {
    const { y } = plan.places[p], many = run.trials.length > 300 ? " many" : "";
    if (p < KNOBS) add(svg, "path", { class: "held", d: steps(run, plan, p, t => t.before[p]) });
    if (p === LAG) drawLag(svg, plan, run);
    add(svg, "path", { class: "ran" + many, d: steps(run, plan, p, panel.of) });
    for (const verdict of VERDICTS) {
      const size = SIZES[verdict] * (QUIET.includes(verdict) ? clamp(150 / run.trials.length, .45, 1) : 1);
      const marks = run.trials.filter(t => t.verdict === verdict && isMarked(t, p))
        .map(t => shape(SHAPES[verdict], plan.x(t.middle), y(p < KNOBS ? t.tried[p] : t.tps || 0), size));
      if (marks.length) add(svg, "path", { class: `mark ${verdict}`, d: marks.join("") });
    }
  }

  function drawLag(svg, plan, run) {
    const { y } = plan.places[LAG];
    add(svg, "path", { class: "largest", d: steps(run, plan, LAG, t => t.lagMax) });
    if (!run.lagLimit) return;
    add(svg, "path", { class: "limit", d: `M${MARGIN.left} ${y(run.lagLimit)}H${plan.right}` });
    const place = { x: plan.right, y: y(run.lagLimit) - 4, "text-anchor": "end" };
    add(svg, "text", { class: "limit-name", ...place }, `limit ${run.lagLimit}`);
  }

  // Several runs: each has a colour, a dash and a shape, and is moved a little so that none hides another.
  function drawBeside(svg, plan, run, index, panel, p) {
    const { y } = plan.places[p];
    const shift = p < KNOBS ? (index - (data.runs.length - 1) / 2) * 1.6 : 0;
    const line = { stroke: colour(index), "stroke-dasharray": DASHES[style(index)], fill: "none", "stroke-width": 1.7 };
    add(svg, "path", { ...line, d: steps(run, plan, p, p < KNOBS ? t => t.before[p] : panel.of, shift) });
    for (const [verdict, size] of [["accepted", 3.4], ["reopened", 5.5], ["failed", 3.4]]) {
      const marks = run.trials.filter(t => t.verdict === verdict && isMarked(t, p))
        .map(t => [plan.x(t.middle), y(p < KNOBS ? t.tried[p] : t.tps || 0) + shift])
        .map(([x, height]) => shape(RUN_SHAPES[style(index)], x, height, size));
      const fill = verdict === "failed" ? "var(--ground)" : colour(index);
      if (marks.length) add(svg, "path", { d: marks.join(""), fill, stroke: colour(index), "stroke-width": 1.5 });
    }
  }

  // TPS has a mark for every window; a number where the trial was about it, or about all of them.
  function isMarked(t, p) {
    if (p === TPS) return true;
    return p < KNOBS && (t.verdict === "reopened" || t.tried[p] !== t.before[p]);
  }

  // --- reading a window ---

  function makeTip(box) {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    box.append(tip);
    return tip;
  }

  function fillTip(tip, lines) {
    tip.replaceChildren(...lines.map(([text, head]) => {
      const line = document.createElement("p");
      line.textContent = text;
      if (head) line.className = "head";
      return line;
    }));
    tip.hidden = false;
  }

  // Beside the point, on the side with more room, and inside the chart.
  function placeTip(tip, box, x, y) {
    const left = x > box.clientWidth / 2 ? x - tip.offsetWidth - 14 : x + 14;
    tip.style.left = `${clamp(left, 0, Math.max(0, box.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${clamp(y - tip.offsetHeight / 2, 0, Math.max(0, box.clientHeight - tip.offsetHeight))}px`;
  }

  function describe(run, t) {
    const about = t.simulated ? ", simulated" : "";
    const time = `${shown(t.to / data.unit)} ${data.unitName}`;
    const lines = [[alone ? `Window ${t.number}, to ${time}` : `${run.name}, window ${t.number}`, true]];
    const again = t.tried.join() === t.before.join();
    const against = again ? "" : ` against ${t.before.join("/")}`;
    lines.push([`${again ? "measured" : "tried"} ${t.tried.join("/")}${against}${about}`]);
    lines.push([`TPS ${shown(t.tps)}, PPS ${shown(t.pps)}, lag ${shown(t.lag)}`]);
    if (alone && t.queues !== "–") lines.push([`queues ${t.queues}, largest lag ${shown(t.lagMax)}`]);
    lines.push([`${t.verdict}: ${t.reason}`]);
    return lines;
  }

  function nearest(trials, seconds) {
    let best = 0;
    trials.forEach((t, i) => { if (Math.abs(t.middle - seconds) < Math.abs(trials[best].middle - seconds)) best = i; });
    return best;
  }

  function watchTime(box) {
    // The arrow keys follow the run with the most windows.
    const guide = data.runs.reduce((a, b) => (b.trials.length > a.trials.length ? b : a));
    let drawn, tip, picked = -1;
    const redraw = () => {
      box.replaceChildren();
      drawn = drawTime(box);
      tip = makeTip(box);
    };
    const pick = (seconds, y) => {
      picked = nearest(guide.trials, seconds);
      const there = data.runs.filter(run => run.trials.length && seconds <= run.trials.at(-1).to + 1)
        .map(run => [run, run.trials[nearest(run.trials, seconds)]]);
      const lines = (there.length ? there : [[guide, guide.trials[picked]]]).flatMap(([run, t]) => describe(run, t));
      const t = guide.trials[picked], x = drawn.plan.x(t.from);
      drawn.cursor.setAttribute("x", x);
      drawn.cursor.setAttribute("width", Math.max(2, drawn.plan.x(t.to) - x));
      fillTip(tip, lines);
      placeTip(tip, box, drawn.plan.x(t.middle), y);
      return lines;
    };
    const hide = () => { tip.hidden = true; drawn.cursor.setAttribute("width", 0); };
    const point = event => {
      const place = box.getBoundingClientRect();
      const share = (event.clientX - place.left - MARGIN.left) / (drawn.plan.right - MARGIN.left);
      pick(clamp(share, 0, 1) * latest * data.unit, event.clientY - place.top);
    };
    box.addEventListener("pointermove", point);
    box.addEventListener("pointerdown", point);
    box.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hide(); });
    box.addEventListener("blur", hide);
    box.addEventListener("keydown", event => {
      const last = guide.trials.length - 1;
      const next = { ArrowRight: picked + 1, ArrowLeft: picked - 1, Home: 0, End: last }[event.key];
      if (event.key === "Escape") hide();
      if (next === undefined) return;
      event.preventDefault();
      const lines = pick(guide.trials[clamp(next, 0, last)].middle, drawn.plan.places[LAG].y0 - 50);
      document.getElementById("spoken").textContent = lines.map(([text]) => text).join(". ");
    });
    return redraw;
  }

  // --- the heat map ---

  function viridis(share) {
    const place = clamp(share, 0, 1) * (VIRIDIS.length - 1), i = Math.min(Math.floor(place), VIRIDIS.length - 2);
    return VIRIDIS[i].map((low, c) => Math.round(low + (VIRIDIS[i + 1][c] - low) * (place - i)));
  }

  function drawHeat(box, heat, index) {
    const width = box.clientWidth, high = 21, top = 22;
    const wide = (width - MARGIN.left - MARGIN.right) / heat.columns.length;
    const names = heat.columns.map(([low, up]) => (low === up ? `${low}` : `${low}–${up}`));
    const turned = Math.max(...names.map(name => name.length)) * 7.2 + 6 > wide;
    const bottom = top + heat.rows.length * high, height = bottom + (turned ? 52 : 20) + 52;
    const svg = canvas(box, width, height);
    const turn = { patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    const hatch = add(add(svg, "defs"), "pattern", { id: `hatch${index}`, width: 5, height: 5, ...turn });
    add(hatch, "path", { class: "hatch", d: "M0 0V5" });
    const x = column => MARGIN.left + column * wide, y = row => top + row * high;
    add(svg, "text", { x: 0, y: top - 8 }, "NP/NT");
    heat.rows.forEach(([np, nt], row) => {
      add(svg, "text", { x: MARGIN.left - 7, y: y(row) + 15, "text-anchor": "end" }, `${np}/${nt}`);
    });
    names.forEach((name, column) => {
      const middle = x(column) + wide / 2;
      const upright = { x: middle, y: bottom + 15, "text-anchor": "middle" };
      const lying = { transform: `translate(${middle + 4} ${bottom + 6}) rotate(-90)`, "text-anchor": "end" };
      add(svg, "text", turned ? lying : upright, name);
    });
    const largest = Math.max(1e-9, ...heat.cells.map(cell => cell[2] || 0));
    for (const [column, row, tps, windows] of heat.cells) {
      const [r, g, b] = viridis((tps || 0) / largest);
      const place = { x: x(column) + .5, y: y(row) + .5, width: wide - 1, height: high - 1 };
      add(svg, "rect", { ...place, fill: `rgb(${r} ${g} ${b})`, opacity: windows ? 1 : .4 });
      if (!windows) add(svg, "rect", { ...place, fill: `url(#hatch${index})` });
      else if (wide >= 8 + 7 * String(windows).length) {
        const ink = .3 * r + .6 * g + .1 * b < 130 ? "#fff" : "#000";
        const middle = { x: x(column) + wide / 2, y: y(row) + 15, "text-anchor": "middle" };
        add(svg, "text", { ...middle, style: `fill:${ink}` }, windows);
      }
    }
    const frame = ([column, row], kind) =>
      add(svg, "rect", { class: kind, x: x(column) + 1, y: y(row) + 1, width: wide - 2, height: high - 2 });
    if (heat.start) frame(heat.start, "outline first");
    if (heat.final) frame(heat.final, "outline");
    drawScale(svg, width, height - 30, largest);
    add(svg, "text", { x: width - MARGIN.right, y: height - 38, "text-anchor": "end" }, "agents (NA)");
    return { svg, x, y, wide, high, picked: null, frame };
  }

  function drawScale(svg, width, y, largest) {
    const wide = Math.min(220, width - MARGIN.left - 90), cuts = 44;
    for (let i = 0; i < cuts; i++) {
      const [r, g, b] = viridis(i / (cuts - 1));
      const place = { x: MARGIN.left + i * wide / cuts, y, width: wide / cuts + .4, height: 10 };
      add(svg, "rect", { ...place, fill: `rgb(${r} ${g} ${b})` });
    }
    add(svg, "text", { x: MARGIN.left, y: y + 25 }, "0");
    add(svg, "text", { x: MARGIN.left + wide, y: y + 25, "text-anchor": "end" }, shown(largest));
    add(svg, "text", { x: MARGIN.left + wide + 10, y: y + 10 }, "TPS");
  }

  function watchHeat(box) {
    const index = +box.dataset.heat, heat = data.runs[index].heat;
    const cells = new Map(heat.cells.map(cell => [`${cell[0]},${cell[1]}`, cell]));
    let drawn, tip, at = heat.final || [0, 0];
    const redraw = () => {
      box.replaceChildren();
      drawn = drawHeat(box, heat, index);
      tip = makeTip(box);
    };
    const hide = () => { tip.hidden = true; drawn.picked?.remove(); };
    const pick = (column, row) => {
      const cell = cells.get(`${column},${row}`);
      hide();
      if (!cell) return;
      at = [column, row];
      drawn.picked = drawn.frame(at, "picked");
      const count = `${cell[3]} measured window${cell[3] === 1 ? "" : "s"}`;
      const source = cell[3] ? `mean of ${count}` : "simulated, never measured";
      const settings = cell[4].split(", ");
      const few = settings.slice(0, 4).join(", ") + (settings.length > 4 ? ", …" : "");
      const lines = [[few, true], [`TPS ${shown(cell[2])}: ${source}`]];
      fillTip(tip, lines);
      placeTip(tip, box, drawn.x(column) + drawn.wide / 2, drawn.y(row) - 30);
      return lines;
    };
    const point = event => {
      const place = box.getBoundingClientRect();
      const across = event.clientX - place.left - drawn.x(0), down = event.clientY - place.top - drawn.y(0);
      pick(Math.floor(across / drawn.wide), Math.floor(down / drawn.high));
    };
    box.addEventListener("pointermove", point);
    box.addEventListener("pointerdown", point);
    box.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hide(); });
    box.addEventListener("blur", hide);
    box.addEventListener("keydown", event => {
      const move = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (event.key === "Escape") hide();
      if (!move) return;
      event.preventDefault();
      const column = clamp(at[0] + move[0], 0, heat.columns.length - 1);
      const lines = pick(column, clamp(at[1] + move[1], 0, heat.rows.length - 1));
      if (lines) document.getElementById("spoken").textContent = lines.map(([text]) => text).join(". ");
    });
    return redraw;
  }

  drawKeys();
  const time = document.getElementById("time");
  const redraws = [...(time ? [[time, watchTime(time)]] : []),
    ...[...document.querySelectorAll("[data-heat]")].map(box => [box, watchHeat(box)])];
  let width = 0;
  const fit = () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    redraws.forEach(([, redraw]) => redraw());
  };
  addEventListener("resize", fit);
  fit();
})();
