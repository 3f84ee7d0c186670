// Browsers start no Worker for a page that is opened as a file. There, the search script runs in a hidden frame of the page instead.
// Material's offline plugin looks for the name of this file and would load a script from the network without it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inner.document.createElement("script");
      this.ready = new Promise((resolve) => (script.onload = resolve));
      script.src = url;
      this.inner.document.head.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
