"use strict";
const $ = (id) => document.getElementById(id);
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const SVG = "http://www.w3.org/2000/svg";
const drawn = (name, attributes = {}, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};
const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;

const bytes = Uint8Array.from(atob(MODULE), (letter) => letter.charCodeAt(0));
const state = { scope: "cache_shard", machine: null, preset: "" };

WebAssembly.instantiate(bytes, {}).then(({ instance }) => {
  const wasm = instance.exports;
  const answer = (length) =>
    JSON.parse(new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.answer(), length)));
  const describe = (text, shard) => {
    const given = new TextEncoder().encode(text);
    const room = wasm.room(given.length);
    if (room === 0 && given.length > 0) return { error: "that is more than 32 MiB" };
    new Uint8Array(wasm.memory.buffer, room, given.length).set(given);
    return answer(wasm.describe(shard));
  };
  const presets = answer(wasm.list_presets());
  for (const { name, title } of presets) $("preset").append(element("option", { value: name }, `${name}: ${title}`));
  $("preset").append(element("option", { value: "" }, "(the text below)"));
  const refresh = () => {
    const shard = Number($("shard").value);
    $("wanted").textContent = shard;
    const text = state.preset || $("text").value;
    const machine = describe(text, shard);
    $("error").hidden = !machine.error;
    $("error").textContent = machine.error || "";
    if (machine.error) return;
    state.machine = machine;
    show(machine, shard);
    sweep(shard);
  };
  $("preset").addEventListener("change", () => {
    state.preset = $("preset").value;
    if (state.preset) $("text").value = state.preset;
    refresh();
  });
  $("text").addEventListener("input", () => {
    const text = $("text").value.trim();
    state.preset = presets.some(({ name }) => name === text) ? text : "";
    $("preset").value = state.preset;
    refresh();
  });
  $("shard").addEventListener("input", () => {
    state.scope = "cache_shard";
    refresh();
  });
  for (const scope of ["cpu", "smt", "cache_shard", "cache", "numa", "system"]) {
    const button = element("button", { type: "button", "data-scope": scope }, scope);
    button.addEventListener("click", () => {
      state.scope = scope;
      refresh();
    });
    $("scopes").append(button);
  }
  // `#grace`, or `#pack:1 core:8`, as another page may link to.
  const asked = decodeURIComponent(location.hash.slice(1)) || "grace";
  state.preset = presets.some(({ name }) => name === asked) ? asked : "";
  $("preset").value = state.preset;
  $("text").value = asked;
  refresh();
  document.documentElement.dataset.ready = "yes";
});

const size = (bytes) => (bytes ? ` of ${bytes >= 1048576 ? `${Math.round(bytes / 1048576)} MiB` : `${Math.round(bytes / 1024)} KiB`}` : "");

// Neighbours differ: steps of the golden angle around the circle of colours never return close to an earlier colour.
const colour = (pod) => `hsl(${(pod * 137.5) % 360} 55% 55%)`;

function show(machine, shard) {
  const scope = machine.scopes.find((it) => it.scope === state.scope);
  const podOf = new Map(scope.pods.flatMap((pod, at) => pod.members.map((cpu) => [cpu, at])));
  $("summary").textContent = `${machine.model || machine.name}: ${counted(machine.cpus.length, "CPU", "CPUs")}, ${counted(machine.cores, "core", "cores")}, ${counted(machine.caches.length, "last-level cache", "last-level caches")}, ${counted(machine.nodes, "node", "nodes")}, ${counted(machine.packages, "package", "packages")}`;
  $("notes").replaceChildren(...machine.notes.map((note) => element("li", {}, note)));
  for (const button of $("scopes").querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.scope === state.scope);
  const cores = scope.pods.map((pod) => pod.cores);
  const least = Math.min(...cores), most = Math.max(...cores);
  const each = least === most ? counted(least, "core", "cores") : `${least} to ${most} cores`;
  $("division").textContent = `${state.scope}: ${counted(scope.pods.length, "pool", "pools")} of ${each}${state.scope === "cache_shard" ? `, with a requested size of ${shard}` : ""}.`;

  const groups = (cpus, key) => {
    const found = new Map();
    for (const cpu of cpus) found.set(cpu[key], [...(found.get(cpu[key]) || []), cpu]);
    return found;
  };
  const packages = [...groups(machine.cpus, "package")].map(([id, cpus]) => {
    const nodes = [...groups(cpus, "node")].map(([node, cpus]) => {
      const caches = [...groups(cpus, "cache")].map(([cache, cpus]) => {
        const { level, size_bytes } = machine.caches[cache];
        const its = [...groups(cpus, "core").values()].map((threads) =>
          element("span", { class: "core" }, ...threads.map((cpu) =>
            element("span", { class: `cpu ${cpu.kind}`, style: `--pod: ${colour(podOf.get(cpu.id))}`, title: `CPU ${cpu.id}, core ${cpu.core}, pool ${podOf.get(cpu.id)}` }))));
        const name = level ? `L${level}${size(size_bytes)}` : "no cache told";
        return element("div", { class: "cache" }, element("div", { class: "tag" }, name), element("div", { class: "cpus" }, ...its));
      });
      const row = element("div", { class: "caches" }, ...caches);
      return node === null ? row : element("div", { class: "node" }, element("div", { class: "tag" }, `node ${node}`), row);
    });
    return element("div", { class: "package" }, element("div", { class: "tag" }, `package ${id}`), ...nodes);
  });
  $("drawing").replaceChildren(...packages);
  const rows = scope.pods.map((pod, at) => element("tr", {}, element("td", {}, String(at)), element("td", {}, pod.cpus), element("td", {}, counted(pod.cores, "core", "cores"))));
  $("pods").replaceChildren(element("tr", {}, ...["pool", "CPUs", ""].map((head) => element("th", {}, head))), ...rows);
}

function sweep(shard) {
  const rows = SWEEPS.machines[state.preset];
  $("sweep").hidden = !rows;
  if (!rows) return;
  // As wide as its place, so that letters stay as large as they are elsewhere.
  const width = Math.max(300, Math.min(640, $("curves").clientWidth || 640)), height = 240, left = 44, bottom = 44, top = 12;
  const step = (width - left - 8) / rows.length;
  const best = { even: Math.max(...rows.map((row) => row.even)), bursts: Math.max(...rows.map((row) => row.bursts)) };
  const x = (at) => left + step * (at + 0.5);
  const y = (part) => top + (height - top - bottom) * (1 - part);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.append(drawn("title", {}, "Simulated throughput of each division, as parts of the best"));
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(drawn("line", { class: "grid", x1: left, x2: width - 8, y1: y(part), y2: y(part) }));
    svg.append(drawn("text", { x: left - 6, y: y(part) + 4, "text-anchor": "end" }, `${part * 100} %`));
  }
  const picked = rows.reduce((nearest, row, at) => {
    if (state.scope !== "cache_shard") return row.scope === state.scope ? at : nearest;
    if (row.scope !== "cache_shard") return nearest;
    const distance = (at) => Math.abs(Math.log(rows[at].shard / shard));
    return nearest < 0 || distance(at) < distance(nearest) ? at : nearest;
  }, -1);
  rows.forEach((row, at) => {
    const column = drawn("rect", { class: `column${at === picked ? " is-picked" : ""}`, x: x(at) - step / 2, y: top, width: step, height: height - top - bottom });
    column.addEventListener("click", () => {
      state.scope = row.scope;
      if (row.shard) $("shard").value = row.shard;
      $("shard").dispatchEvent(new Event("input"));
      if (!row.shard) document.querySelector(`[data-scope=${row.scope}]`).click();
    });
    column.append(drawn("title", {}, told(row)));
    svg.append(column, drawn("text", { x: x(at), y: height - bottom + 16, "text-anchor": "middle" }, row.shard ? `${row.shard}` : row.scope));
  });
  const shards = rows.map((row, at) => (row.shard ? at : -1)).filter((at) => at >= 0);
  if (shards.length) svg.append(drawn("text", { x: (x(shards[0]) + x(shards[shards.length - 1])) / 2, y: height - bottom + 32, "text-anchor": "middle" }, "cores per shard"));
  for (const load of ["even", "bursts"]) {
    const points = rows.map((row, at) => [x(at), y(row[load] / best[load])]);
    svg.append(drawn("path", { class: load, d: points.map(([px, py], at) => `${at ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("") }));
    for (const [px, py] of points) {
      const dot = drawn("circle", { class: load, cx: px, cy: py, r: 3.5 });
      dot.style.pointerEvents = "none";
      svg.append(dot);
    }
  }
  $("curves").replaceChildren(svg);
  const said = picked < 0 ? "This scope makes the same pools as a finer one here." : told(rows[picked]);
  $("picked").replaceChildren(element("span", { style: "color: var(--accent)" }, "● even "), element("span", { style: "color: var(--second)" }, "● bursts"), element("br"), said);

  function told(row) {
    const rate = (items) => (items >= 1e6 ? `${(items / 1e6).toFixed(2)} million` : `${Math.round(items / 1e3)} thousand`);
    const name = row.shard ? `shards of about ${row.shard}` : row.scope;
    return `${name}, ${counted(row.pods, "pool", "pools")}: ${rate(row.even)} items a second where all queue, ${rate(row.bursts)} in bursts of one.`;
  }
}
