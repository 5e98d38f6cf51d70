const box = document.getElementById("scatter"), legend = document.querySelector(".legend");
const across = document.getElementById("across"), upward = document.getElementById("upward");
const given = JSON.parse(box.dataset.models);
const colours = ["--c0", "--c1", "--c3", "--c4", "--c2"];
const marks = ["M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "M-4-4h8v8h-8z", "M0-6L6 0L0 6L-6 0z", "M0-5.5L5 4H-5z", "M0 5.5L5-4H-5z",
  "M-1.7-5h3.4v3.3H5v3.4H1.7V5h-3.4V1.7H-5v-3.4h3.3z", "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z", "M0-5L4.8-1.5L2.9 4H-2.9L-4.8-1.5z"];
const edge = { left: 78, right: 16, top: 12, bottom: 52 };

const make = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  if (text !== undefined) element.textContent = text;
  return element;
};
const mark = (group, attributes) => make("path", { d: marks[group % marks.length], fill: `var(${colours[group % colours.length]})`, ...attributes });
const ticks = (low, high) => {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(each => each * power >= rough);
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
};
const scale = (values, from, to) => {
  const least = Math.min(...values), most = Math.max(...values), room = (most - least) * 0.06 || Math.abs(most) * 0.1 || 1;
  const low = least - room, high = most + room;
  return { at: value => from + (value - low) / (high - low) * (to - from), ticks: ticks(low, high) };
};
const draw = () => {
  const width = Math.max(280, Math.min(700, box.clientWidth)), height = Math.round(0.45 * width) + 110;     // text stays readable on a phone
  const i = given.names.indexOf(across.value), j = given.names.indexOf(upward.value);
  const shown = given.rows.filter(row => row.values[i] !== null && row.values[j] !== null);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", width, height, "font-size": 13, fill: "currentColor" });
  if (shown.length) {
    const x = scale(shown.map(row => row.values[i]), edge.left, width - edge.right);
    const y = scale(shown.map(row => row.values[j]), height - edge.bottom, edge.top);
    x.ticks.forEach(value => svg.append(make("path", { d: `M${x.at(value)} ${edge.top}V${height - edge.bottom}`, stroke: "var(--line)" }),
      make("text", { x: x.at(value), y: height - edge.bottom + 18, "text-anchor": "middle" }, value)));
    y.ticks.forEach(value => svg.append(make("path", { d: `M${edge.left} ${y.at(value)}H${width - edge.right}`, stroke: "var(--line)" }),
      make("text", { x: edge.left - 8, y: y.at(value) + 4, "text-anchor": "end" }, value)));
    shown.forEach(row => {
      const point = mark(row.group, { transform: `translate(${x.at(row.values[i])} ${y.at(row.values[j])})`, stroke: "var(--paper)", "stroke-width": 0.8 });
      point.append(make("title", {}, `${row.name}: ${across.value} ${row.values[i].toPrecision(4)}, ${upward.value} ${row.values[j].toPrecision(4)}`));
      svg.append(point);
    });
  }
  svg.append(make("text", { x: (edge.left + width - edge.right) / 2, y: height - 8, "text-anchor": "middle" }, shown.length ? across.value : "No model has both scores."),
    make("text", { transform: `translate(16 ${(edge.top + height - edge.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, upward.value));
  box.replaceChildren(svg);
  box.setAttribute("aria-label", `${upward.value} against ${across.value} of ${shown.length} models; the table of all models has the numbers.`);
};
given.groups.forEach((label, group) => {
  const item = document.createElement("li"), svg = make("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
  svg.append(mark(group, {}));
  item.append(svg, label);
  legend.append(item);
});
[across, upward].forEach(select => select.addEventListener("change", draw));
document.querySelectorAll(".axes, .legend").forEach(part => { part.hidden = false; });
draw();
