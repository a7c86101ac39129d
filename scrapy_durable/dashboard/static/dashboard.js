// Looks again while the page is seen, says what has changed, and draws what it was given.
"use strict";
(() => {
  const EVERY = 2000, LONGEST = 10000, MOST = 900; // milliseconds, milliseconds, looks that the chart holds
  const live = document.getElementById("live");
  const gone = document.getElementById("gone");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const axes = (xLabel, yLabels) => {
    const look = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    return [{ ...look, label: xLabel, labelSize: xLabel ? 20 : 0 },
      ...yLabels.map(([scale, label, side]) => ({ ...look, scale, label, side, size: 52, labelSize: 20, grid: side === 1 ? { show: false } : look.grid }))];
  };
  const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });
  const widthOf = (place) => Math.max(200, place.clientWidth);

  // What is wider than its place is scrolled by keyboard too
  const reach = () => document.querySelectorAll(".scroll").forEach((place) => {
    if (place.scrollWidth > place.clientWidth) place.tabIndex = 0; else place.removeAttribute("tabindex");
  });

  // Charts that a tab gives as data

  const drawn = new Map();
  const draw = (place) => {
    const plot = JSON.parse(place.dataset.plot);
    drawn.get(place)?.destroy();
    const strokes = [colour("link"), colour("second"), colour("well"), colour("bad"), colour("slow"), colour("dim")];
    const series = plot.series.map((one, number) => {
      const stroke = strokes[number % strokes.length];
      return plot.points
        ? { label: one.label, stroke, paths: () => null, points: { show: true, size: 5, fill: stroke, stroke } }
        : { label: one.label, stroke, width: 2, spanGaps: true };
    });
    if (plot.title) { place.setAttribute("role", "img"); place.setAttribute("aria-label", plot.title); }
    drawn.set(place, new uPlot({
      width: widthOf(place), height: 280, scales: { x: { time: Boolean(plot.time) } },
      series: [{ label: plot.x_label || "" }, ...series], axes: axes(plot.x_label, [["y", plot.y_label, 3]]),
    }, [plot.x, ...plot.series.map((one) => one.values)], place));
  };
  const drawAll = () => document.querySelectorAll("[data-plot]").forEach(draw);

  // The chart of what this page has seen

  const seen = [[], [], []];
  let chart = null, crawl = 0;
  const drawSeen = () => {
    const place = document.getElementById("chart");
    chart?.destroy();
    chart = null;
    if (!place || seen[0].length < 2) return;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", "Answers a second and their latency since this page was opened");
    chart = new uPlot({
      width: widthOf(place), height: 200, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: true }, n: { range: (_, low, high) => [0, Math.max(1, high * 1.15)] }, s: { range: (_, low, high) => [0, Math.max(0.1, high * 1.3)] } },
      series: [{ label: "at", value: (_, at) => (at === null ? "–" : clock(at)) }, { label: "answers/s", scale: "n", stroke: colour("link"), width: 2 }, { label: "latency, s", scale: "s", stroke: colour("second"), width: 2, dash: [6, 4] }],
      axes: axes("", [["n", "answers a second", 3], ["s", "latency, s", 1]]).map((axis, number) => number ? axis : { ...axis, space: 80, values: (_, splits) => splits.map(clock) }),
    }, seen, place);
  };
  const note = () => {
    const state = document.getElementById("state");
    if (!state) return;
    const said = document.getElementById("said");
    if (said.textContent !== state.dataset.said) said.textContent = state.dataset.said;
    document.title = state.dataset.said;
    const { now, answers, latency, lost } = state.dataset;
    const at = Number(now);
    if (lost === "1" || answers === "" || !(at > (seen[0].at(-1) ?? 0))) return;
    seen[0].push(at);
    seen[1].push(Number(answers));
    seen[2].push(latency === "" ? null : Number(latency));
    if (seen[0].length > MOST) seen.forEach((row) => row.shift());
    if (chart && document.getElementById("chart")?.firstChild) chart.setData(seen); else drawSeen();
  };

  // Looking

  let wait = EVERY, timer = 0, paused = false;
  const later = () => { clearTimeout(timer); if (live && !paused && !document.hidden) timer = setTimeout(look, wait); };
  const look = () => { clearTimeout(timer); htmx.trigger(live, "look"); };
  const lost = () => { gone.hidden = false; live.classList.add("stale"); wait = Math.min(LONGEST, wait * 2); later(); };
  if (live) {
    live.addEventListener("htmx:afterSwap", () => { gone.hidden = true; live.classList.remove("stale"); wait = EVERY; reach(); note(); later(); });
    for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) live.addEventListener(name, lost);
    document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else if (!paused) look(); });
    const button = document.getElementById("pause");
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      button.textContent = paused ? "Resume updates" : "Pause updates";
      if (paused) clearTimeout(timer); else look();
    });
    note();
    later();
  }
  drawAll();
  reach();
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => {
    drawn.forEach((plot, place) => plot.setSize({ width: widthOf(place), height: 280 }));
    reach();
    if (chart) chart.setSize({ width: widthOf(document.getElementById("chart")), height: 200 });
  }, 100); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawAll(); drawSeen(); });
})();
