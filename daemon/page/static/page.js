// Everything that comes from the cluster is put in as text, never as HTML.
"use strict";

const REFRESH_MS = 10000;
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function drawing(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const WORDS = { waits: "waits", runs: "runs", saves: "saves its work", lent: "its nodes are lent" };

// How a job leaves.
const WAYS = { kill: "killed", application: "after its next checkpoint", system: "after a signal", shrink: "shrunk" };

const isDate = (seconds) => seconds >= 1e9;

// An instant: a date in the reader's time zone, or the seconds of a trace.
function instant(seconds) {
  return isDate(seconds) ? new Date(seconds * 1000).toLocaleString() : `${Math.round(seconds)} s`;
}

function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 360) / 10} h`;
}

const nodeHours = (nodeSeconds) => `${(nodeSeconds / 3600).toFixed(2)} node-hours`;
const some = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

async function read(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}

// What of the status is shown in another place.
const ELSEWHERE = new Set(["sentence", "leader", "lease", "leader_problem", "paused"]);

const LEADS = {
  alone: "This daemon is taken for the only one: no leases are kept",
  leads: "This daemon leads",
  follows: "Another daemon leads; this one only writes down what it decides",
  waits: "No daemon is known to lead; this one begins nothing yet",
  idle: "This daemon needs no lease: it has nothing to give back, and does not act",
};

// Who leads, by which lease, and whether makeway is paused.
function showLeader(status) {
  const box = byId("leader");
  if (status.leader === undefined) return box.replaceChildren();
  const [role, term] = status.leader.split(" (");
  const lease = status.lease ? `; lease ${term ? term.replace(")", "") : ""}: ${status.lease}` : "";
  const said = [`${LEADS[role] || status.leader}${lease}.`];
  if (status.leader_problem) said.push(`The lease was not written: ${status.leader_problem}.`);
  const paused = status.paused ? element("span", " Paused: nothing is taken from jobs.", { class: "bad" })
    : element("span", " Not paused.");
  box.replaceChildren(element("span", said.join(" ")), paused);
}

function showLoans(operations) {
  const found = operations.flatMap((one) => one.loans.map((loan) => row([
    loan.lender, one.for_job, loan.nodes, WAYS[loan.method] || loan.method, instant(loan.since_s),
    loan.returned ? "yes" : "not yet",
  ])));
  byId("loans").tBodies[0].replaceChildren(...found);
  if (!found.length) emptyTable("loans", "No open operation has nodes of other jobs.");
}

async function showNow() {
  const found = await (await read("now.json")).json();
  const status = found.status || {};
  byId("sentence").textContent = found.problem || status.sentence || "";
  byId("sentence").className = found.problem ? "bad" : "";
  byId("status").replaceChildren(...Object.entries(status)
    .filter(([name]) => !ELSEWHERE.has(name))
    .map(([name, value]) => pair(name.replaceAll("_", " "), value)));
  byId("operations").tBodies[0].replaceChildren(...found.operations.map((one) => row([
    one.for_job,
    one.kind.replaceAll("_", " ") + (one.observe ? " (observed)" : ""),
    one.phase.replaceAll("_", " "),
    one.nodes,
    instant(one.deadline_s),
    one.tasks.map((task) => `${task.verb} ${task.job}: ${task.progress}`).join("; "),
  ])));
  if (!found.operations.length) emptyTable("operations", "No operation is open.");
  showLeader(status);
  showLoans(found.operations);
}

function pair(name, value) {
  const both = element("div");
  const shown = value === null ? "none" : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value === "number" ? String(Math.round(value * 10) / 10) : String(value);
  both.append(element("dt", name), element("dd", shown));
  return both;
}

function row(cells) {
  const made = element("tr");
  made.append(...cells.map((cell) => element("td", String(cell))));
  return made;
}

function emptyTable(id, text) {
  const table = byId(id);
  const made = element("tr");
  made.append(element("td", text, { colspan: table.tHead.rows[0].cells.length, class: "faint" }));
  table.tBodies[0].replaceChildren(made);
}

async function showTimeline() {
  const found = await (await read("timeline.json")).json();
  const box = byId("timeline");
  if (!found.rows.length) {
    box.replaceChildren(element("p", "No urgent job in these hours.", { class: "faint" }));
    return;
  }
  const width = box.clientWidth, left = Math.min(110, width / 4), high = 20, top = 6;
  const height = top + high * found.rows.length + 24;
  const scale = (width - left - 10) / Math.max(1, found.now_s - found.from_s);
  const x = (seconds) => left + (seconds - found.from_s) * scale;
  const image = drawing("svg", { width, height, role: "img" });
  image.append(drawing("title", {}, "Urgent jobs and the jobs that left for them"));
  found.rows.forEach((one, index) => {
    const y = top + high * index;
    image.append(drawing("text", { x: 0, y: y + 14 }, one.job.length > 15 ? `${one.job.slice(0, 14)}…` : one.job));
    for (const bar of one.bars) {
      const until = Math.min(found.now_s, bar.until_s === null ? found.now_s : bar.until_s);
      const shape = drawing("rect", {
        x: x(bar.from_s), y: y + 3, width: Math.max(2, (until - bar.from_s) * scale), height: high - 6, rx: 2, class: bar.what,
      });
      shape.append(drawing("title", {}, `job ${one.job}, ${WORDS[bar.what]}: ${instant(bar.from_s)}, ${span(until - bar.from_s)}`));
      image.append(shape);
    }
  });
  const base = top + high * found.rows.length + 4;
  image.append(drawing("path", { d: `M${left} ${base}H${width - 10}`, class: "axis" }));
  for (let step = 0; step <= 3; step += 1) {
    const seconds = found.from_s + (found.now_s - found.from_s) * step / 3;
    const anchor = step === 0 ? "start" : step === 3 ? "end" : "middle";
    image.append(drawing("text", { x: x(seconds), y: base + 16, "text-anchor": anchor },
      step === 3 ? "now" : `${span(found.now_s - seconds)} ago`));
  }
  box.replaceChildren(image);
}

let counts = [1];

async function showWhatIf() {
  const slider = byId("nodes");
  const nodes = counts[Math.min(Number(slider.value), counts.length - 1)];
  let found;
  try {
    found = await (await read(`what-if.json?nodes=${nodes}`)).json();
  } catch (error) {
    byId("what-if-of").textContent = error.message;
    byId("curve").replaceChildren();
    emptyTable("levels", "");
    return;
  }
  if (counts.length === 1 && found.counts.length > 1) {
    counts = found.counts;
    slider.max = String(counts.length - 1);
    slider.value = String(counts.length >> 1);
    await showWhatIf();
    return;
  }
  counts = found.counts;
  slider.max = String(counts.length - 1);
  byId("nodes-shown").textContent = some(nodes, "node");
  byId("what-if-of").textContent =
    `On the cluster as decision ${found.decision} saw it (${instant(found.at_s)}); ${some(found.free, "node")} free.`;
  byId("levels").tBodies[0].replaceChildren(...found.levels.map((level) => row([
    `from ${span(level.from_s)}`,
    nodeHours(level.loss_node_s),
    level.leavers.map((one) => `${one.jobs.join(", ")} (${some(one.nodes, "node")}, ${WAYS[one.method] || one.method})`).join("; ") || "no job",
  ])));
  if (!found.levels.length) emptyTable("levels", "No choice of jobs frees so many nodes by these deadlines.");
  byId("curve").replaceChildren(curve(found));
}

function curve(found) {
  const width = byId("curve").clientWidth, height = 200, left = 70, bottom = 170;
  const losses = found.losses_node_s;
  const most = Math.max(1, ...losses.filter((loss) => loss !== null));
  const x = (index) => left + (width - left - 10) * index / Math.max(1, losses.length - 1);
  const y = (loss) => bottom - (bottom - 15) * loss / most;
  let path = "", before = null;
  losses.forEach((loss, index) => {
    if (loss !== null) path += before === null ? `M${x(index)} ${y(loss)}` : `H${x(index)}V${y(loss)}`;
    before = loss;
  });
  const image = drawing("svg", { width, height, role: "img" });
  image.append(
    drawing("title", {}, "The loss by deadline"),
    drawing("path", { d: `M${left} 10V${bottom}H${width - 10}`, class: "axis" }),
    drawing("path", { d: path, class: "curve" }),
    drawing("text", { x: left - 6, y: 20, "text-anchor": "end" }, (most / 3600).toFixed(1)),
    drawing("text", { x: left - 6, y: bottom, "text-anchor": "end" }, "0"),
    drawing("text", { x: left, y: height - 8 }, "now"),
    drawing("text", { x: width - 10, y: height - 8, "text-anchor": "end" },
      span((losses.length - 1) * found.step_s)),
  );
  return image;
}

let listed = "";

async function showDecisions() {
  const found = await (await read("decisions.json")).json();
  const key = JSON.stringify(found);
  if (key === listed) return; // what the reader has opened stays open
  listed = key;
  byId("decisions").replaceChildren(...found.map((one) => {
    const entry = element("details");
    entry.append(element("summary",
      `${one.decision} · ${instant(one.at_s)} · ${some(one.actions, "action")}: ${one.summaries.join(" ")}`));
    entry.addEventListener("toggle", async () => {
      if (!entry.open || entry.querySelector("pre")) return;
      const text = element("pre", "…");
      entry.append(text);
      try {
        text.textContent = await (await read(`explanation.txt?decision=${one.decision}`)).text();
      } catch (error) {
        text.textContent = error.message;
      }
    });
    return entry;
  }));
  if (!found.length) byId("decisions").replaceChildren(element("p", "No decision is stored.", { class: "faint" }));
}

async function refresh() {
  for (const show of [showNow, showTimeline, showDecisions, showWhatIf]) {
    try {
      await show();
    } catch (error) {
      byId("sentence").textContent = error.message;
      byId("sentence").className = "bad";
    }
  }
  document.body.dataset.loaded = "yes";
}

byId("nodes").addEventListener("input", showWhatIf);
addEventListener("resize", () => Promise.all([showTimeline(), showWhatIf()]));
refresh();
setInterval(refresh, REFRESH_MS);
