// Draws the charts of a report with uPlot, and answers its switches. Charts are drawn when they
// come into view, so that a page with hundreds of runs opens at once.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("data").textContent);
  const HEIGHT = 230;
  const SECONDS = 3; // between questions for news
  const WHOLE = [...Array(12).keys()].flatMap((k) => [1, 2, 5].map((n) => n * 10 ** k)); // distances of ticks
  const drawn = new Map(); // by figure
  const hiddenRuns = new Set();

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (name) => css(`--c-${name}`) || css("--c-accent");
  const faded = (hex, alpha) => {
    const n = parseInt(hex.length === 4 ? hex.slice(1).replace(/./g, "$&$&") : hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  };
  const short = (v) => {
    if (v === null || v === undefined) return "";
    const size = Math.abs(v);
    if (size >= 1000) return Math.round(v).toLocaleString("en").replace(/,/g, "\u202f");
    return String(Number(v.toPrecision(4)));
  };
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // One row per place, with the values of every series there.
  function aligned(view) {
    const places = [...new Set(view.xs.flat())].sort((a, b) => a - b);
    const row = new Map(places.map((x, i) => [x, i]));
    const spread = (x, values) => {
      const column = new Array(places.length).fill(null);
      x.forEach((place, i) => { column[row.get(place)] = values[i] ?? null; });
      return column;
    };
    return { places, spread };
  }

  const positive = (values, log) => log ? values.map((v) => (v > 0 ? v : null)) : values;

  function columns(view, log) {
    const { places, spread } = aligned(view);
    const rows = [places], series = [{}], bands = [], whiskers = [];
    const lonely = view.series.length < 5 && view.series.every((one) => one.style === "thin");
    for (const one of view.series) {
      const stroke = colour(one.colour), x = view.xs[one.x];
      const at = rows.length;
      rows.push(positive(spread(x, one.y), log));
      series.push(lineOf(one, stroke, lonely));
      if (!one.low) continue;
      const low = positive(spread(x, one.low), log), high = positive(spread(x, one.high), log);
      if (one.style === "bar" || one.style === "pale" || view.whiskers) {
        whiskers.push({ at, low, high, stroke });
        continue;
      }
      rows.push(low, high);
      const edge = { show: true, width: 0, points: { show: false }, spanGaps: true, edge: at };
      series.push({ ...edge, stroke: "transparent" }, { ...edge, stroke: "transparent" });
      bands.push({ series: [at + 2, at + 1], fill: faded(stroke, 0.18) });
    }
    return { rows, series, bands, whiskers };
  }

  function lineOf(one, stroke, lonely) {
    const base = { label: one.label, spanGaps: true, stroke, width: 2, one };
    const dots = { show: true, size: 5, fill: stroke };
    const few = one.y.filter((v) => v !== null).length <= 40;
    switch (one.style) {
      case "dash": return { ...base, width: 1.4, dash: [6, 4], points: { show: false } };
      case "thin": return { ...base, width: lonely ? 1.6 : 0.8, stroke: faded(stroke, lonely ? 1 : 0.55), points: { show: false } };
      case "step": return { ...base, width: 1.3, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
      case "bar": return { ...base, width: 0, fill: stroke, paths: uPlot.paths.bars({ size: [0.92, 60] }), points: { show: false } };
      case "pale": return { ...base, width: 1.2, fill: faded(stroke, 0.22), paths: uPlot.paths.bars({ size: [0.92, 60] }), points: { show: false } };
      default: return { ...base, points: few ? dots : { show: false } };
    }
  }

  // What uPlot does not draw itself: intervals of bars, and dashed lines with a text.
  function extras(view, whiskers) {
    return (u) => {
      const { ctx } = u, ratio = devicePixelRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      ctx.lineWidth = 1.3 * ratio;
      for (const { at, low, high } of whiskers) {
        if (!u.series[at].show) continue;
        ctx.strokeStyle = css("--ink");
        u.data[0].forEach((x, i) => {
          if (low[i] === null || high[i] === null) return;
          const left = u.valToPos(x, "x", true);
          ctx.beginPath();
          ctx.moveTo(left, u.valToPos(low[i], "y", true));
          ctx.lineTo(left, u.valToPos(high[i], "y", true));
          ctx.stroke();
        });
      }
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "bottom";
      view.marks.forEach(([value, text], i) => {
        if (value < u.scales.y.min || value > u.scales.y.max) return;
        const top = u.valToPos(value, "y", true);
        ctx.strokeStyle = ctx.fillStyle = css("--grey");
        ctx.lineWidth = ratio;
        ctx.setLineDash([3 * ratio, 3 * ratio]);
        ctx.beginPath();
        ctx.moveTo(u.bbox.left, top);
        ctx.lineTo(u.bbox.left + u.bbox.width, top);
        ctx.stroke();
        ctx.setLineDash([]);
        const right = i % 2; // neighbours do not cover each other
        ctx.textAlign = right ? "right" : "left";
        ctx.fillText(text, u.bbox.left + (right ? u.bbox.width - 4 * ratio : 4 * ratio), top - ratio);
      });
      ctx.restore();
    };
  }

  const hasBars = (view) => view.series.some((s) => s.style === "bar" || s.style === "pale");

  function range(view, chart, whiskers, log) {
    return {
      x: (u) => {
        const low = u.data[0][0] ?? 0, high = u.data[0].at(-1) ?? 1;
        if (hasBars(view)) return chart.ticks.length ? [-0.6, chart.ticks.length - 0.4] : [low - 0.6, high + 0.6];
        if (chart.ticks.length) return [-0.3, chart.ticks.length - 0.7];
        if (low === high) return low > 0 ? [0, 1.5 * high] : [low - 1, high + 1];
        return [Math.min(low, 0), high];
      },
      y: (u, low, high) => {
        const whole = whiskers.filter((w) => u.series[w.at].show).flatMap((w) => [...w.low, ...w.high]);
        const all = [...whole, ...view.marks.map((mark) => mark[0])].filter((v) => v !== null && (!log || v > 0));
        if (low !== null) all.push(low, high);
        if (!all.length) return log ? [1, 10] : [0, 1];
        low = all.reduce((a, b) => Math.min(a, b)); high = all.reduce((a, b) => Math.max(a, b));
        if (log) return low === high ? [low / 2, high * 2] : [low / 1.3, high * 1.3];
        const room = (view.marks.length ? 0.12 : 0.06) * (high - Math.min(low, 0)) || 1; // for texts above lines
        return [low >= 0 ? 0 : low - room, high + room];
      },
    };
  }

  function settings(figure) {
    const section = figure.closest(".part") || figure.closest("section");
    const chosen = (name) => section.querySelector(`.controls input[value="${name}"]`);
    const view = section.querySelector(".controls input[type=radio]:checked");
    return {
      log: Boolean(chosen("log")?.checked),
      seeds: chosen("seeds")?.checked ?? true,
      view: view ? view.value : "",
    };
  }

  function draw(figure) {
    const chart = data.charts[figure.dataset.chart], chosen = settings(figure);
    const view = chart.views.find((v) => v.name === chosen.view) || chart.views[0];
    const before = drawn.get(figure);
    before?.plot.destroy();
    const off = before?.off || new Set(saved.off[keyOf(figure)]);
    const holder = figure.querySelector(".plot");
    const { rows, series, bands, whiskers } = columns(view, chosen.log);
    const ranges = range(view, chart, whiskers, chosen.log);
    const axis = () => ({
      stroke: css("--grey"), grid: { stroke: css("--line"), width: 0.6 }, ticks: { stroke: css("--line"), width: 0.6 },
      font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 18, labelGap: 0,
    });
    const ticks = chart.ticks.length ? {
      splits: () => chart.ticks.map((t) => t[0]), values: () => chart.ticks.map((t) => t[1]), grid: { show: false },
    } : { values: (u, places) => places.map(short), space: 60, incrs: WHOLE };
    const state = { figure, chart, view, off, chosen, at: -1 };
    const plot = new uPlot({
      width: Math.max(200, holder.clientWidth), height: HEIGHT,
      legend: { show: false }, cursor: { y: false, drag: { x: true, y: false }, points: { size: 6 } },
      scales: {
        x: { time: false, range: ranges.x },
        y: { distr: chosen.log ? 3 : 1, range: ranges.y },
      },
      axes: [
        { ...axis(), label: chart.x_label, size: 32, ...ticks },
        { ...axis(), label: view.y_label, size: 52, values: (u, places) => places.map((v) => v === null ? "" : short(v)) },
      ],
      series, bands,
      hooks: { draw: [extras(view, whiskers)], setCursor: [(u) => read(state, u.cursor.idx)] },
    }, rows, holder);
    state.plot = plot;
    drawn.set(figure, state);
    legend(state);
    show(state);
  }

  function show(state) {
    const { plot, off, chosen } = state;
    plot.batch(() => {
      plot.series.forEach((s, i) => {
        if (!i) return;
        const one = (s.edge === undefined ? s : plot.series[s.edge]).one;
        const visible = !off.has(one.toggle) && !hiddenRuns.has(one.run) && (chosen.seeds || one.style !== "thin");
        if (s.show !== visible) plot.setSeries(i, { show: visible });
      });
    });
  }

  function swatch(one) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", 16); svg.setAttribute("height", 10); svg.setAttribute("aria-hidden", "true");
    const bar = one.style === "bar" || one.style === "pale";
    const mark = document.createElementNS("http://www.w3.org/2000/svg", bar ? "rect" : "line");
    const size = bar ? { x: 3, y: 1, width: 9, height: 8, fill: colour(one.colour), "fill-opacity": one.style === "pale" ? 0.25 : 1, stroke: colour(one.colour) }
      : { x1: 0, x2: 16, y1: 5, y2: 5, stroke: colour(one.colour), "stroke-width": 2.5, "stroke-dasharray": one.style === "dash" ? "4 3" : "none" };
    Object.entries(size).forEach(([key, value]) => mark.setAttribute(key, value));
    svg.append(mark);
    return svg;
  }

  function legend(state) {
    const { figure, view, off } = state;
    figure.querySelectorAll(".legend, .at, .spoken").forEach((old) => old.remove());
    const box = make("fieldset", { className: "legend" });
    state.outputs = [];
    const thick = view.series.map((one, i) => [one, i]).filter(([one]) => one.style !== "thin");
    const listed = thick.length ? thick : [...new Map(view.series.map((one, i) => [one.toggle, [one, i]])).values()];
    for (const [one, i] of listed) {
      const input = make("input", { type: "checkbox", checked: !off.has(one.toggle) });
      input.addEventListener("change", () => {
        input.checked ? off.delete(one.toggle) : off.add(one.toggle);
        box.querySelectorAll("input").forEach((other) => { other.checked = !off.has(other.dataset.toggle); });
        show(state);
        remember();
      });
      input.dataset.toggle = one.toggle;
      const output = make("output");
      if (thick.length) state.outputs.push([output, i]);
      const label = thick.length ? one.label : one.toggle;
      const switchable = listed.length > 1 ? [input] : [];
      box.append(make(switchable.length ? "label" : "span", {}, ...switchable, swatch(one), label, " ", output));
    }
    state.line = make("div", { className: "at" });
    state.spoken = make("div", { className: "spoken", ariaLive: "polite" });
    figure.append(box, state.line, state.spoken);
  }

  function read(state, index) {
    if (!state.plot) return;
    const { plot, view, chart } = state;
    const places = plot.data[0], there = index !== null && index !== undefined;
    state.at = there ? index : state.at;
    let column = 0;
    const columnOf = view.series.map((one) => {
      column += 1;
      const mine = column;
      if (one.low && !(one.style === "bar" || one.style === "pale")) column += 2;
      return mine;
    });
    const tick = there && chart.ticks.find((t) => Math.abs(t[0] - places[index]) < 0.5);
    const texts = [];
    for (const [output, i] of state.outputs) {
      const one = view.series[i], values = plot.data[columnOf[i]];
      let at = there ? index : -1;
      if (there && values[at] === null) at = nearest(values, places, places[index], tick ? 0.5 : (places.at(-1) - places[0]) / 25);
      const value = at >= 0 ? values[at] : null;
      const own = value === null ? -1 : view.xs[one.x].indexOf(places[at]);
      const interval = own >= 0 && one.low && one.low[own] !== null ? ` [${short(one.low[own])}, ${short(one.high[own])}]` : "";
      output.textContent = value === null ? "" : short(value) + interval;
      if (value !== null && !state.off.has(one.toggle)) texts.push(`${one.label} ${short(value)}${interval}`);
    }
    state.line.textContent = there ? `${chart.x_label}: ${tick ? tick[1] : short(places[index])}` : "";
    return texts.length ? `${state.line.textContent}: ${texts.join(", ")}` : state.line.textContent;
  }

  function nearest(values, places, x, within) {
    let best = -1;
    values.forEach((value, i) => {
      if (value === null || Math.abs(places[i] - x) > within) return;
      if (best < 0 || Math.abs(places[i] - x) < Math.abs(places[best] - x)) best = i;
    });
    return best;
  }

  // Arrow keys move the cursor from value to value, and the values are spoken.
  function key(event, figure) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    const state = drawn.get(figure);
    if (!(event.key in moves) || !state) return;
    event.preventDefault();
    const last = state.plot.data[0].length - 1;
    const index = Math.min(last, Math.max(0, state.at + moves[event.key]));
    state.at = index;
    state.plot.setCursor({ left: state.plot.valToPos(state.plot.data[0][index], "x"), top: 10 });
    state.spoken.textContent = read(state, index);
  }

  const figures = [...document.querySelectorAll("figure.chart")];
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && !drawn.has(target)) draw(target);
    }
  }, { rootMargin: "300px" });
  const sized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const state = drawn.get(target.parentElement);
      if (state && Math.abs(state.plot.width - contentRect.width) > 1 && contentRect.width > 0) {
        state.plot.setSize({ width: Math.max(200, contentRect.width), height: HEIGHT });
      }
    }
  });
  const redraw = (inside = document) => {
    for (const figure of drawn.keys()) if (inside.contains(figure)) draw(figure);
  };

  // Switches keep their state while a served page loads itself again.
  const STORE = `delayzero-report ${location.pathname}`;
  const saved = (data.live && JSON.parse(sessionStorage.getItem(STORE) || "null")) || { boxes: {}, off: {}, open: [] };
  const boxes = () => [...document.querySelectorAll("main .controls input, main .controls select, input[data-run]")];
  const nameOf = (box) => box.id || `${box.name}|${box.dataset.run || box.value}`;
  const keyOf = (figure) => `${figure.closest("section").id} ${figure.querySelector("figcaption").textContent}`;
  const openable = () => [...document.querySelectorAll("main details")];
  function remember() {
    if (!data.live) return;
    for (const box of boxes()) saved.boxes[nameOf(box)] = box.tagName === "SELECT" ? box.value : box.checked;
    for (const [figure, { off }] of drawn) saved.off[keyOf(figure)] = [...off];
    saved.open = openable().filter((one) => one.open).map((one) => one.firstChild.textContent);
    sessionStorage.setItem(STORE, JSON.stringify(saved));
  }
  function recall() {
    for (const box of boxes()) {
      const value = saved.boxes[nameOf(box)];
      if (value === undefined) continue;
      if (box.tagName === "SELECT") box.value = value; else box.checked = value;
      if (box.dataset.run && !value) hiddenRuns.add(box.dataset.run);
    }
    for (const one of openable()) one.open = saved.open.includes(one.firstChild.textContent);
  }

  function block(select) {
    for (const one of document.querySelectorAll("[data-block]")) one.hidden = one.dataset.block !== select.value;
  }

  recall();
  for (const select of document.querySelectorAll("select[data-blocks]")) {
    if (select.selectedIndex > 0) block(select);
  }
  for (const figure of figures) {
    seen.observe(figure);
    sized.observe(figure.querySelector(".plot"));
    figure.querySelector(".plot").addEventListener("keydown", (event) => key(event, figure));
  }
  document.addEventListener("change", ({ target }) => {
    if (target.dataset.run !== undefined) {
      target.checked ? hiddenRuns.delete(target.dataset.run) : hiddenRuns.add(target.dataset.run);
      drawn.forEach(show);
    } else if (target.dataset.blocks !== undefined) block(target);
    else if (target.closest(".controls")) redraw(target.closest(".part") || target.closest("section"));
    remember();
  });
  matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  matchMedia("print").addEventListener("change", () => redraw());
  addEventListener("beforeprint", () => figures.filter((f) => f.offsetParent && !drawn.has(f)).forEach(draw));

  if (data.live) {
    let known = null;
    const ask = async () => {
      try {
        const answer = await fetch("version", { cache: "no-store" });
        const version = await answer.text();
        const news = known !== null && answer.ok && version !== known;
        if (news && !document.hidden) { remember(); location.reload(); return; }
        known = known ?? (answer.ok ? version : null);
        document.title = document.title.replace(/^\(no answer\) /, "");
      } catch {
        if (!document.title.startsWith("(no answer)")) document.title = `(no answer) ${document.title}`;
      }
      setTimeout(ask, SECONDS * 1000);
    };
    ask();
  }
})();
