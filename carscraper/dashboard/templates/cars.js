// Draws the charts of the page about cars with uPlot, of the numbers that stand in the page.
"use strict";
addEventListener("DOMContentLoaded", () => {
  if (document.querySelector("[data-cars-reading]")) setTimeout(() => location.reload(), 3000);
  const numbers = document.getElementById("cars-charts");
  if (!numbers || typeof uPlot === "undefined") return;
  const charts = JSON.parse(numbers.textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const drawn = new Map();
  const FONT = "12px system-ui, sans-serif";

  // Ages are whole years: points of one year stand beside each other, always in the same places.
  const apart = (x, place) => x + (((place * 0.618034) % 1) - 0.5) * 0.6;

  function columns(chart, isAge) {
    const points = chart.x.map((x, place) => [
      isAge && chart.price[place] !== null ? Math.max(0, apart(x, place)) : x, chart.price[place], chart.median[place],
    ]);
    points.sort((one, other) => one[0] - other[0]);
    return [0, 1, 2].map((column) => points.map((point) => point[column]));
  }

  function draw(element) {
    const id = element.dataset.carsChart, isAge = id === "age";
    const style = getComputedStyle(element.closest(".cars"));
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--c-quiet"), font: FONT, grid: { stroke: colour("--c-line"), width: 1 }, ticks: { stroke: colour("--c-line") } };
    drawn.get(id)?.destroy();
    drawn.set(id, new uPlot({
      width: element.clientWidth, height: element.clientHeight,
      legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false, range: (_, low, high) => [0, Math.max(high, 1) * 1.02] }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.05] } },
      axes: [
        { ...axis, label: isAge ? "years old" : "km", size: 34, labelSize: 20, labelGap: 0, labelFont: FONT, values: (_, marks) => marks.map((mark) => short.format(mark)) },
        { ...axis, size: 58, values: (_, marks) => marks.map((mark) => "R " + short.format(mark)) },
      ],
      series: [
        {},
        { paths: () => null, points: { show: true, size: 4, width: 0, fill: colour("--c-point") + "80" } },
        { stroke: colour("--c-median"), width: 2.5, spanGaps: true, points: { show: true, size: 6, fill: colour("--c-median"), width: 0 } },
      ],
    }, columns(charts[id], isAge), element));
  }

  const places = [...document.querySelectorAll("[data-cars-chart]")];
  places.forEach(draw);
  dark.addEventListener("change", () => places.forEach(draw));
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = drawn.get(target.dataset.carsChart);
      if (chart.width !== target.clientWidth) chart.setSize({ width: target.clientWidth, height: target.clientHeight });
    }
  });
  places.forEach((place) => sized.observe(place));
});
