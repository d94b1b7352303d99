// The only script. Every page works without it. It adds live updates, keys, completion, and the paths of this browser.
(() => {
  "use strict";
  const body = document.body;
  const { base, path, live } = body.dataset;
  const byId = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");

  // ---- Paths of this browser -------------------------------------------------------------------
  const stored = (key) => {
    try {
      const list = JSON.parse(localStorage.getItem(key) || "[]");
      return Array.isArray(list) ? list.filter((one) => typeof one === "string").slice(0, 50) : [];
    } catch {
      return [];
    }
  };
  const store = (key, list) => {
    try {
      localStorage.setItem(key, JSON.stringify(list));
    } catch {
      // The browser keeps nothing.
    }
  };
  const FAVOURITES = `zk-curator${base}:favourites`;
  const RECENT = `zk-curator${base}:recent`;
  const urlOf = (node) =>
    node === "/" ? "" : node.split("/").map((name) => encodeURIComponent(name)).join("/");
  // The characters that the server marks, in names and in data.
  const INVISIBLE =
    /[\p{Cc}\p{Cf}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{e0000}-\u{e0fff}]/gu;
  const mark = (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  const visible = (text) => text.replace(INVISIBLE, mark);
  const visibleData = (text) =>
    text.replace(INVISIBLE, (c) => ("\t\u00a0\u202f\u3000\ufe0f".includes(c) ? c : mark(c)));
  const fill = (list, nodes) => {
    if (!list) return;
    list.replaceChildren(
      ...nodes.map((node) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = `${base}/tree${urlOf(node)}`;
        link.textContent = visible(node);
        item.append(link);
        return item;
      }),
    );
  };
  const showPaths = () => {
    const favourites = stored(FAVOURITES);
    fill(byId("favourites"), favourites);
    fill(byId("recent"), stored(RECENT).filter((node) => node !== path).slice(0, 8));
    const none = byId("no-favourites");
    if (none) none.hidden = favourites.length > 0;
    const star = byId("star");
    if (star) {
      const isOne = favourites.includes(path);
      star.setAttribute("aria-pressed", String(isOne));
      star.textContent = isOne ? "★ Favourite" : "☆ Favourite";
    }
  };
  if (path) {
    store(RECENT, [path, ...stored(RECENT).filter((node) => node !== path)].slice(0, 20));
  }
  showPaths();
  byId("star")?.addEventListener("click", () => {
    const favourites = stored(FAVOURITES);
    const others = favourites.filter((node) => node !== path);
    store(FAVOURITES, others.length < favourites.length ? others : [...others, path].sort());
    showPaths();
  });

  // ---- The sentence about a change: not again after a reload -------------------------------------
  if (byId("done")) history.replaceState(null, "", location.pathname);

  // ---- Completion of paths ---------------------------------------------------------------------
  const goto = byId("goto");
  const completions = byId("completions");
  let asked = "";
  let waiting = 0;
  goto?.addEventListener("input", () => {
    const text = goto.value;
    const parent = text.slice(0, text.lastIndexOf("/") + 1);
    if (!parent.startsWith("/") || text === asked) return;
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      asked = text;
      try {
        const answer = await fetch(`${base}/api/v1/names?path=${encodeURIComponent(text)}`);
        if (!answer.ok || asked !== text) return;
        const { paths } = await answer.json();
        completions.replaceChildren(
          ...paths.map((one) => {
            const option = document.createElement("option");
            option.value = one;
            return option;
          }),
        );
      } catch {
        // Without a connection there is no completion.
      }
    }, 150);
  });

  // ---- Keys ------------------------------------------------------------------------------------
  const ROWS = [".children", ".recipes", ".contenders", ".services", ".instances"];
  const links = () => [...document.querySelectorAll(ROWS.map((rows) => `${rows} tbody th > a:first-child`).join())];
  const move = (by) => {
    const all = links();
    if (all.length === 0) return;
    const now = all.indexOf(document.activeElement);
    const next = now < 0 ? (by > 0 ? 0 : all.length - 1) : now + by;
    all[Math.max(0, Math.min(all.length - 1, next))].focus();
  };
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest?.("input, textarea, select, summary, [contenteditable]");
    if (event.key === "Escape" && inField) return void event.target.blur();
    if (inField || event.ctrlKey || event.altKey || event.metaKey) return;
    const inText = event.target.closest?.("pre, .value");
    const keys = {
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      ArrowRight: () => links().includes(document.activeElement) && document.activeElement.click(),
      ArrowLeft: () => [...document.querySelectorAll(".crumbs a")].pop()?.click(),
      "/": () => (byId("filter") || byId("search-for") || goto)?.focus(),
      g: () => (goto?.focus(), goto?.select()),
      "?": () => location.assign(`${base}/help`),
    };
    const needsRows = ["ArrowDown", "ArrowUp", "ArrowRight"].includes(event.key);
    const scrolls = inText && event.key.startsWith("Arrow");
    if (!Object.hasOwn(keys, event.key) || scrolls || (needsRows && links().length === 0)) return;
    event.preventDefault();
    keys[event.key]();
  });

  // ---- Forms: nothing is lost by accident --------------------------------------------------------
  let isSending = false;
  let sent = 0;
  document.addEventListener("submit", (event) => {
    // The second click of a double click would drop the response to the first one, and change twice.
    if (event.target.getAttribute("method") === "post") {
      if (Date.now() - sent < 2000) return void event.preventDefault();
      sent = Date.now();
    }
    isSending = true;
  });
  const isEdited = (form) =>
    [...form.elements].some((field) => "defaultValue" in field && field.type !== "hidden" && field.value !== field.defaultValue);
  addEventListener("beforeunload", (event) => {
    if (!isSending && [...document.querySelectorAll("form[data-guarded]")].some(isEdited)) event.preventDefault();
  });

  // ---- Commands to copy ------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });

  // ---- Times -------------------------------------------------------------------------------------
  const duration = (seconds) =>
    seconds < 60 ? `${seconds} s`
      : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
        : seconds < 172800 ? `${Math.floor(seconds / 3600)} h`
          : `${Math.floor(seconds / 86400)} d`;
  setInterval(() => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const then = Date.parse(time.dateTime);
      const seconds = Math.floor((Date.now() - then) / 1000);
      if (seconds >= 1) time.textContent = `${duration(seconds)} ago`;
    }
  }, 15000);

  // ---- Search: results appear while it runs, and a button stops it ---------------------------------
  const search = byId("search");
  const stopSearch = byId("search-stop");
  let searching = null;
  const runSearch = async () => {
    searching?.abort();
    const mine = (searching = new AbortController());
    const query = new URLSearchParams(new FormData(search));
    history.replaceState(null, "", `${search.getAttribute("action")}?${query}`);
    const [hits, state, end] = [byId("hits"), byId("search-state"), byId("search-end")];
    hits.replaceChildren();
    end.replaceChildren();
    byId("results").hidden = false;
    stopSearch.disabled = false;
    const paragraph = (text) => {
      const one = document.createElement("p");
      one.textContent = text;
      end.append(one);
    };
    const show = (line) => {
      if (!line) return;
      const part = JSON.parse(line);
      if (part.summary) {
        state.textContent = part.summary.sentences[0];
        return part.summary.sentences.slice(1).forEach(paragraph);
      }
      const row = hits.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      const link = document.createElement("a");
      link.href = `${base}/node${urlOf(part.path)}`;
      const name = document.createElement("bdi");
      name.textContent = visible(part.path);
      link.append(name);
      head.append(link);
      const text = document.createElement("td");
      text.className = "line";
      text.dir = "auto";
      text.textContent = visibleData(part.line || "");
      row.append(head, text);
    };
    state.textContent = "Searching.";
    try {
      const answer = await fetch(`${search.dataset.lines}?${query}`, { headers: { Accept: "application/x-ndjson" }, signal: mine.signal });
      if (!answer.ok) {
        state.textContent = (await answer.json()).detail;
        return;
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const lines = (rest + part.value).split("\n");
        rest = lines.pop();
        state.textContent = `${(hits.rows.length + lines.length).toLocaleString("en")} so far.`;
        lines.forEach(show);
      }
    } catch (why) {
      const count = `${hits.rows.length.toLocaleString("en")} found.`;
      if (searching === mine) state.textContent = why.name === "AbortError" ? `Stopped. ${count}` : `No connection. ${count}`;
    } finally {
      if (searching === mine) stopSearch.disabled = true;
    }
  };
  search?.addEventListener("submit", (event) => {
    event.preventDefault();
    runSearch();
  });
  stopSearch?.addEventListener("click", () => searching?.abort());

  // ---- Live ----------------------------------------------------------------------------------------
  if (!live) return;
  const chip = byId("live");
  const [icon, words, age] = [chip.querySelector(".chip-icon"), byId("live-text"), byId("live-age")];
  let staleSince = 0;
  const show = (kind, sign, text, since) => {
    chip.className = `chip ${kind}`;
    icon.textContent = sign;
    if (words.textContent !== text) words.textContent = text;
    staleSince = since || 0;
    tick();
  };
  const tick = () => {
    age.textContent = staleSince ? duration(Math.floor((Date.now() - staleSince) / 1000)) : "";
  };
  setInterval(tick, 1000);

  const keyOf = (row) => row.querySelector("a")?.getAttribute("href");
  // Children, and rows that say what counts as a change, because their cells have times.
  const MARKED = ".children tbody tr, tr[data-state]";
  const stateOf = (row) => row.dataset.state ?? [3, 4, 5].map((cell) => row.cells[cell]?.textContent).join();
  const replace = (present, fresh) => {
    if (present.isEqualNode(fresh)) return;
    const before = new Map([...present.querySelectorAll(MARKED)].map((row) => [keyOf(row), stateOf(row)]));
    const closed = [...present.querySelectorAll("details")].map((one) => one.open);
    const active = present.contains(document.activeElement) ? document.activeElement : null;
    const focused = active?.getAttribute("href");
    const scrolled = [...present.querySelectorAll(".scroll[id]")].map((one) => [one.id, one.scrollLeft]);
    const copy = document.importNode(fresh, true);
    if (before.size) {
      for (const row of copy.querySelectorAll(MARKED)) {
        if (before.get(keyOf(row)) !== stateOf(row)) row.classList.add("changed");
      }
    }
    const details = [...copy.querySelectorAll("details")];
    if (details.length === closed.length) details.forEach((one, place) => (one.open = closed[place]));
    present.replaceWith(copy);
    for (const [id, left] of scrolled) if (left) byId(id)?.scrollTo({ left });
    if (active?.id) byId(active.id)?.focus({ preventScroll: true });
    if (focused) [...copy.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
  };
  let isLoading = false;
  let isDue = false;
  // The page shows an older state than the one of the news, and says so. The next news are another reason to load it.
  const outdated = (text) => {
    shown = null;
    if (isFresh) show("warn", "⚠", text);
  };
  // It is loaded again with the next news, or without them if it is not stale.
  const missed = () => {
    outdated("out of date");
    setTimeout(() => stream && shown === null && isFresh && refresh(), 5000);
  };
  const refresh = async () => {
    if (isLoading) return void (isDue = true);
    isLoading = true;
    try {
      do {
        isDue = false;
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        if (answer.redirected) return outdated("signed out");
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (answer.status === 404) return outdated("deleted");
        if (answer.status >= 500 || answer.status === 429) return missed();
        if (!answer.ok) return outdated("out of date");
        for (const present of document.querySelectorAll("[data-region]")) {
          const fresh = page.getElementById(present.id);
          if (fresh) replace(present, fresh);
        }
        const counts = [document, page].map((one) => one.querySelector(".tabs .count"));
        if (counts[0] && counts[1]) counts[0].textContent = counts[1].textContent;
      } while (isDue);
      if (isFresh) show("ok", "●", "live");
    } catch {
      // The stream says that the connection is lost.
      missed();
    } finally {
      isLoading = false;
    }
  };
  let shown = null;
  let stream = null;
  // Every change is reported. The page shows all of them after it was loaded again.
  let isFresh = false;
  const stop = () => {
    stream?.close();
    stream = null;
    isFresh = false;
  };
  const follow = () => {
    if (stream || document.hidden) return;
    shown = null;
    stream = new EventSource(live);
    stream.addEventListener("news", (event) => {
      const news = JSON.parse(event.data);
      isFresh = news.state === "fresh";
      if (isFresh) {
        if (news.generation === shown) show("ok", "●", "live");
      } else if (news.state === "stale") show("warn", "⚠", "stale since", Date.now() - news.stale_ms);
      else if (news.state === "unsupported") show("", "○", "not live");
      else show("", "○", "connecting");
      // The page may be older than the stream, so the first news after a connection count as a change.
      if (isFresh && news.generation !== shown) {
        shown = news.generation;
        refresh();
      }
    });
    stream.addEventListener("error", () => {
      shown = null;
      isFresh = false;
      if (!staleSince) show("warn", "⚠", "no connection for", Date.now());
      if (stream?.readyState === EventSource.CLOSED) {
        stop();
        setTimeout(follow, 5000);
      }
    });
  };
  // A browser has six connections to a server, and a hidden page needs none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stop();
      show("", "○", "paused");
    } else follow();
  });
  addEventListener("pagehide", stop);
  show("", "○", "connecting");
  follow();
  addEventListener("pageshow", (event) => event.persisted && location.reload());
})();
