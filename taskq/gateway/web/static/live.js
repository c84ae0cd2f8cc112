"use strict";
// Puts the figures that the server sends where they belong. Without it, the page is as it was sent.
(() => {
  const address = document.body.dataset.live;
  const note = document.getElementById("live");
  if (!address || !window.EventSource) return;
  let source = null;
  const apply = (figures) => {
    for (const [name, text] of Object.entries(figures)) {
      const found = CSS.escape(name);
      for (const one of document.querySelectorAll(`[data-live="${found}"]`)) one.textContent = text;
      for (const one of document.querySelectorAll(`[data-live-value="${found}"]`))
        one.value = text.replaceAll(",", "");
      for (const one of document.querySelectorAll(`[data-live-max="${found}"]`))
        one.max = text.replaceAll(",", "");
    }
  };
  let campaigns = null;
  const open = () => {
    source = new EventSource(address);
    source.onmessage = (event) => {
      const figures = JSON.parse(event.data);
      if (figures.campaigns !== undefined) {
        if (campaigns !== null && campaigns !== figures.campaigns) {
          note.textContent = "Campaigns have come or gone: reload the page.";
        }
        campaigns = figures.campaigns;
      }
      apply(figures);
      if (note.dataset.away) delete note.dataset.away, (note.textContent = "");
    };
    const away = () => {
      note.dataset.away = "yes";
      note.textContent = "No news: the queue does not answer.";
    };
    source.addEventListener("away", away);
    source.onerror = away;
  };
  // A page that nobody sees asks for nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) source.close(), (source = null);
    else if (!document.hidden && !source) open();
  });
  if (!document.hidden) open();
})();
