"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const wantedRanks = (text) => {
    const ranks = new Set(), hosts = [];
    for (const word of text.split(/[\s,]+/).filter(Boolean)) {
      const range = /^(\d+)(?:-(\d+))?$/.exec(word);
      if (!range) { hosts.push(word.toLowerCase()); continue; }
      const last = Math.min(Number(range[2] ?? range[1]), Number(range[1]) + 100000);
      for (let rank = Number(range[1]); rank <= last; rank++) ranks.add(String(rank));
    }
    if (!ranks.size && !hosts.length) return () => true;
    return (row) => ranks.has(row.dataset.rank) || hosts.some((name) => (row.dataset.host || "").toLowerCase().includes(name));
  };
  const logs = all("details.log").map((box) => ({ box, pre: box.querySelector("pre"), open: box.open, text: null }));
  const status = document.getElementById("found");
  const show = () => {
    const words = document.getElementById("search").value.toLowerCase();
    const isWanted = wantedRanks(document.getElementById("ranks-wanted").value);
    let lines = 0, files = 0;
    for (const log of logs) {
      log.text ??= log.pre.textContent;
      const kept = words ? log.text.split("\n").filter((line) => line.toLowerCase().includes(words)) : null;
      const isShown = isWanted(log.box) && (!words || kept.length > 0);
      log.box.hidden = !isShown;
      if (!isShown) continue;
      const text = kept ? kept.join("\n") : log.text;
      if (log.pre.textContent !== text) log.pre.textContent = text;
      log.box.open = kept ? true : log.open;
      files += 1;
      lines += kept ? kept.length : 0;
    }
    status.textContent = words ? `${lines} lines in ${files} logs` : `${files} logs`;
  };
  let due = 0;
  const later = () => { clearTimeout(due); due = setTimeout(show, 150); };
  for (const box of all(".find")) box.hidden = false;
  for (const field of all("#search, #ranks-wanted")) field.addEventListener("input", later);
  const choice = document.getElementById("ranks-shown");
  if (choice) choice.addEventListener("input", () => {
    const isWanted = wantedRanks(choice.value);
    for (const row of all("#ranks-table tbody tr")) row.hidden = !isWanted(row);
  });
  for (const figure of all("figure")) {
    for (const item of all(".names li[data-c]", figure)) {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      label.append(box, ...item.childNodes);
      item.replaceChildren(label);
      box.addEventListener("change", () => {
        for (const curve of all(`[data-c="${item.dataset.c}"]`, figure.querySelector("svg"))) curve.style.display = box.checked ? "" : "none";
      });
    }
  }
})();
