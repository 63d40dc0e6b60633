addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
