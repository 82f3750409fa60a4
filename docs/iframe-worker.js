// A browser starts no Worker for a page that is opened from a file; there the search runs in a frame.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.reply = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    frame.srcdoc = `<script>postMessage = (data) => frameElement.reply(data)</script><script src="${url}"></script>`;
    const ready = new Promise((resolve) => frame.addEventListener("load", resolve));
    this.postMessage = (data) => ready.then(() => {
      const inside = frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    });
    document.documentElement.append(frame);
  }
};
