"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const runs = all("article.run");
  const choose = document.getElementById("choose");
  const arms = document.getElementById("arms");

  // One run at a time. A run without a section of its own shows what its row of the list has.
  const brief = document.createElement("article");
  brief.className = "run brief";
  brief.hidden = true;
  document.getElementById("detail").append(brief);
  const facts = (names, cells) => {
    const list = document.createElement("dl");
    list.className = "facts";
    cells.forEach((cell, i) => {
      if (cell.textContent === "" || cell.textContent === "–") return;
      const fact = document.createElement("div");
      const term = document.createElement("dt");
      const text = document.createElement("dd");
      term.textContent = names[i];
      text.textContent = cell.textContent;
      fact.append(term, text);
      list.append(fact);
    });
    return list;
  };
  const show = id => {
    const row = document.getElementById(id);
    brief.hidden = !row || row.tagName !== "TR";
    if (!brief.hidden) {
      const title = document.createElement("h3");
      title.textContent = row.dataset.title;
      if (row.dataset.mode === "sim") {
        const badge = document.createElement("span");
        badge.className = "badge";
        badge.textContent = "SIMULATED";
        title.append(" ", badge);
      }
      const hint = document.createElement("p");
      hint.className = "muted";
      hint.textContent = `This page has no more of this run. Its timeline: caserun report ${id.slice(4)} --html FILE`;
      brief.replaceChildren(title, facts(all("#runs thead th").map(head => head.textContent), [...row.cells]), hint);
    }
    for (const run of runs) run.hidden = run.id !== id;
    if (choose) choose.value = id;
    return brief.hidden ? row : brief;
  };
  const follow = () => {
    const id = location.hash.slice(1);
    if (!/^run-\d+$/.test(id) || !document.getElementById(id)) return false;
    show(id).scrollIntoView();
    return true;
  };
  addEventListener("hashchange", follow);
  addEventListener("load", follow); // the browser has scrolled to the row
  for (const link of all("a[href^='#run-']")) {
    link.addEventListener("click", event => {
      show(link.hash.slice(1));
      if (location.hash !== link.hash) return;
      event.preventDefault();
      follow();
    });
  }
  if (runs.length > 1) {
    document.getElementById("chooser").hidden = false;
    choose.addEventListener("change", () => show(choose.value));
  }
  if (!follow()) show(runs[0].id);

  // Hide arms whose checkbox is off.
  if (arms) {
    arms.hidden = false;
    arms.addEventListener("change", () => {
      const off = new Set(all("input:not(:checked)", arms).map(box => box.value));
      for (const part of all("tr[data-arm], .row[data-arm]")) part.hidden = off.has(part.dataset.arm);
    });
  }

  // Sort by a column. Rows without a value stay last.
  const key = cell => {
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return text === "–" ? null : text;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.dataset.heading = head.textContent; // style.css prints it
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows].map(row => ({ row, key: key(row.cells[column]) }));
        rows.sort((a, b) => a.key === null || b.key === null ? (a.key === null) - (b.key === null) : sign * compare(a.key, b.key));
        table.tBodies[0].append(...rows.map(r => r.row));
      });
    });
  }

  // Show details of the job under the pointer or the focus, and highlight its other bars.
  for (const run of runs) {
    const panel = run.querySelector(".details");
    if (!panel) continue;
    panel.hidden = false;
    const names = all(".jobs thead th", run).map(head => head.textContent);
    const lines = all("svg[data-job]", run);
    const tell = job => {
      for (const mark of all("[data-job]:not(tr)", run)) mark.classList.toggle("here", mark.dataset.job === job);
      const row = run.querySelector(`tr[data-job="${job}"]`);
      panel.replaceChildren(facts(names, [...row.cells]));
    };
    lines.forEach((row, i) => row.setAttribute("tabindex", i === 0 ? "0" : "-1"));
    run.addEventListener("keydown", event => {
      const at = lines.indexOf(event.target);
      const to = at < 0 ? -1 : { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
      if (to === undefined || !lines[to]) return;
      event.preventDefault();
      lines[at].setAttribute("tabindex", "-1");
      lines[to].setAttribute("tabindex", "0");
      lines[to].focus();
    });
    for (const kind of ["pointerover", "focusin", "click"]) {
      run.addEventListener(kind, event => {
        const mark = event.target.closest("[data-job]:not(tr)");
        if (mark) tell(mark.dataset.job);
      });
    }
  }

  // A mark under the pointer, the finger or the focus says its numbers.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.className = "panel";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const marks = "svg :has(> title), svg[data-job]:has(> title), [data-tip]";
  let told = null;
  const sayOf = (mark, x, y) => {
    told?.classList.remove("told");
    told = mark;
    tip.hidden = !mark;
    if (!mark) return;
    const title = mark.querySelector(":scope > title");
    if (title) { // which the browser would show beside the tip
      mark.dataset.tip = title.textContent;
      mark.setAttribute("aria-label", title.textContent);
      if (mark.tagName !== "a") mark.setAttribute("role", "img");
      title.remove();
    }
    mark.classList.add("told");
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const left = (x ?? box.left + box.width / 2) + 12;
    const top = (y ?? box.bottom) + 12;
    tip.style.left = `${Math.max(4, Math.min(left, document.documentElement.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${top + tip.offsetHeight < innerHeight ? top : Math.max(4, (y ?? box.top) - tip.offsetHeight - 12)}px`;
  };
  for (const kind of ["pointerover", "pointerdown"]) {
    addEventListener(kind, event => sayOf(event.target.closest?.(marks) ?? null, event.clientX, event.clientY));
  }
  addEventListener("focusin", event => sayOf(event.target.closest(marks)));
  addEventListener("focusout", () => sayOf(null));
  addEventListener("keydown", event => { if (event.key === "Escape") sayOf(null); });
  for (const picture of all("svg.figure.jobs, svg.strip.trend")) {
    const own = all("g[data-job], circle, a, .mark, .gap", picture);
    picture.setAttribute("role", "group"); // of marks that can be reached
    picture.setAttribute("tabindex", "0");
    picture.setAttribute("aria-description", "Arrow keys go from mark to mark." + (picture.dataset.end ? " Plus and minus zoom, 0 shows all." : ""));
    picture.addEventListener("keydown", event => {
      const at = own.indexOf(told);
      const to = event.shiftKey ? undefined : { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: own.length - 1 }[event.key];
      if (event.key === "Enter" && told?.tagName === "a") location.hash = told.getAttribute("href");
      if (!own[to]) return;
      event.preventDefault();
      sayOf(own[to]);
    });
  }

  // Zoom on time. The pictures of a card have one time.
  const stepOf = span => {
    const power = 10 ** Math.floor(Math.log10(span));
    return power * [0.1, 0.2, 0.25, 0.5, 1, 2].find(part => span / (power * part) <= 6);
  };
  const secondsText = (v, step) => {
    const [scale, unit] = step >= 0.0999 ? [1, "s"] : step >= 0.000999 ? [1e3, "ms"] : [1e6, "us"];
    return `${+(v * scale).toFixed(6)} ${unit}`;
  };
  const cards = Map.groupBy(all("[data-end]").filter(picture => Number(picture.dataset.end) > 0), picture => picture.closest("article, .mix"));
  for (const pictures of cards.values()) {
    const whole = Math.max(...pictures.map(picture => Number(picture.dataset.end)));
    const buttons = [];
    let from = 0;
    let to = whole;
    const axes = pictures.flatMap(picture => all(".grid, .times, .ticks", picture)).map(axis => ({ axis, drawn: [...axis.children] }));
    const draw = () => {
      const unzoomed = to - from >= whole;
      for (const picture of pictures) {
        picture.classList.toggle("zoomed", !unzoomed);
        for (const time of all(".time", picture)) {
          time.setAttribute("x", unzoomed ? "0" : `${-100 * from / (to - from)}%`);
          time.setAttribute("width", unzoomed ? "100%" : `${100 * picture.dataset.end / (to - from)}%`);
        }
      }
      const step = stepOf(to - from);
      for (const { axis, drawn } of axes) {
        if (unzoomed) {
          axis.replaceChildren(...drawn);
          continue;
        }
        axis.replaceChildren();
        for (let v = Math.ceil(from / step) * step; v <= to; v += step) {
          for (const sample of ["line", "text"].map(name => drawn.find(e => e.tagName === name)).filter(Boolean)) {
            const mark = sample.cloneNode();
            for (const x of ["x", "x1", "x2"]) if (mark.hasAttribute(x)) mark.setAttribute(x, `${100 * (v - from) / (to - from)}%`);
            if (mark.tagName === "text") {
              mark.setAttribute("text-anchor", "middle");
              mark.textContent = secondsText(v, step);
            }
            axis.append(mark);
          }
        }
      }
      for (const [button, useless] of buttons) button.disabled = useless();
      sayOf(null);
    };
    const set = (a, b) => {
      const span = Math.min(Math.max(b - a, whole / 1000), whole);
      from = Math.min(Math.max(a, 0), whole - span);
      to = from + span;
      draw();
    };
    const reset = () => set(0, whole);
    const by = (factor, at = (from + to) / 2) => set(at - (at - from) * factor, at + (to - at) * factor);
    addEventListener("beforeprint", reset);
    for (const picture of pictures) {
      const plot = () => (picture.querySelector("rect.lane") ?? picture.querySelector(".row > svg")).getBoundingClientRect();
      const at = x => from + (x - plot().left) / plot().width * (to - from);
      const within = x => x >= plot().left && x <= plot().right;
      picture.addEventListener("wheel", event => {
        const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) && to - from < whole;
        if (!across && !event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        if (across) set(from + event.deltaX / plot().width * (to - from), to + event.deltaX / plot().width * (to - from));
        else by(event.deltaY < 0 ? 0.8 : 1.25, at(event.clientX));
      }, { passive: false });
      picture.addEventListener("dblclick", reset);
      picture.addEventListener("keydown", event => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const quarter = (to - from) / 4 * (event.key === "ArrowLeft" ? -1 : 1);
        const box = told && picture.contains(told) ? told.getBoundingClientRect() : null;
        const middle = box && within(box.left + box.width / 2) ? at(box.left + box.width / 2) : undefined;
        if (event.key === "+" || event.key === "=") by(0.5, middle);
        else if (event.key === "-") by(2, middle);
        else if (event.key === "0") reset();
        else if (event.shiftKey && /^Arrow(Left|Right)$/.test(event.key)) set(from + quarter, to + quarter);
        else return;
        event.preventDefault();
      });
      let start = null;
      const selected = document.createElement("div");
      selected.className = "selected-time";
      picture.addEventListener("selectstart", event => { if (start !== null) event.preventDefault(); });
      picture.addEventListener("pointerdown", event => {
        if (event.button === 0 && event.pointerType !== "touch" && within(event.clientX)) start = event.clientX;
      });
      addEventListener("pointermove", event => {
        if (start === null || Math.abs(event.clientX - start) < 5) return;
        sayOf(null);
        const x = Math.min(Math.max(event.clientX, plot().left), plot().right);
        const box = picture.getBoundingClientRect();
        Object.assign(selected.style, { left: `${Math.min(start, x)}px`, width: `${Math.abs(x - start)}px`, top: `${box.top}px`, height: `${box.height}px` });
        document.body.append(selected);
      });
      addEventListener("pointerup", event => {
        const moved = start !== null && selected.isConnected;
        const range = moved ? [at(start), at(event.clientX)].sort((a, b) => a - b) : null;
        start = null;
        selected.remove();
        if (moved) set(...range);
      });
      addEventListener("pointercancel", () => { start = null; selected.remove(); });
      if (!picture.matches(".jobs, .by-job")) continue;
      const caption = picture.closest("figure").querySelector("figcaption");
      const bar = document.createElement("span");
      bar.className = "zoom";
      for (const [text, label, act, useless] of [
        ["+", "Zoom in on time", () => by(0.5), () => to - from <= whole / 999],
        ["−", "Zoom out", () => by(2), () => to - from >= whole],
        ["all", "Show the whole time", reset, () => to - from >= whole],
      ]) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = text;
        button.title = `${label} (or drag over the picture, Ctrl and the wheel, or + - 0)`;
        button.setAttribute("aria-label", label);
        button.addEventListener("click", act);
        button.disabled = useless();
        buttons.push([button, useless]);
        bar.append(button);
      }
      (caption.querySelector(".legend") ?? caption).append(bar);
    }
  }
})();
