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
})();
