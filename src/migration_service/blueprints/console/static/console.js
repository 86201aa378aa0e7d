// Makes pages dynamic. Every page works without it.
"use strict";

// The browser's time zone, for the times that the server writes.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `console_zone=${zone}; Path=/console; Max-Age=31536000; SameSite=Lax${secure}`;
}

const announce = (text) => {
  const place = document.getElementById("announce");
  if (place && place.textContent !== text) place.textContent = text;
};

// Requests the changing part of the page again after the time that the server gives, and less often after failures.
// A hidden tab requests nothing.
class Part {
  constructor(element) {
    this.element = element;
    this.failures = 0;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.plan(0));
    this.plan(this.first());
  }

  first() {
    return this.element.querySelector(".refreshed a") ? 2 : 0;
  }

  plan(seconds) {
    clearTimeout(this.timer);
    if (document.hidden || this.over) return;
    this.timer = setTimeout(() => this.ask(), seconds * 1000);
  }

  async ask() {
    const address = new URL(location.href);
    address.searchParams.set("part", "1");
    try {
      const answer = await fetch(address, { credentials: "same-origin", redirect: "error" });
      if (answer.status === 401) {
        this.over = true;
        this.element.insertAdjacentHTML("afterbegin", await answer.text());
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      this.show(await answer.text());
      this.failures = 0;
      const next = Number(answer.headers.get("X-Poll-After"));
      if (next) this.plan(next);
    } catch {
      this.failures += 1;
      const line = this.element.querySelector(".refreshed");
      if (line) {
        line.classList.add("stale");
        announce(line.querySelector(".only-stale")?.textContent ?? "");
      }
      this.plan(Math.min(60, 2 ** this.failures));
    }
  }

  show(text) {
    const before = this.element.querySelector("[data-announce]")?.textContent;
    const focused = this.element.contains(document.activeElement) ? this.place(document.activeElement) : null;
    const opened = [...this.element.querySelectorAll("details")].map((it) => it.open);
    this.element.innerHTML = text;
    const details = [...this.element.querySelectorAll("details")];
    if (details.length === opened.length) details.forEach((it, place) => (it.open = opened[place]));
    if (focused) this.element.querySelectorAll("a, button, [tabindex]")[focused - 1]?.focus({ preventScroll: true });
    const after = this.element.querySelector("[data-announce]")?.textContent;
    if (after && before && after !== before) announce(after);
  }

  place(focused) {
    return [...this.element.querySelectorAll("a, button, [tabindex]")].indexOf(focused) + 1;
  }
}

document.querySelectorAll("[data-part]").forEach((element) => {
  if (element.querySelector(".refreshed a")) new Part(element);
});

// Uploads a file and shows the progress. Without this, the browser sends the same form itself.
function watchUpload(form) {
  if (!form) return;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const request = new XMLHttpRequest();
    const box = form.querySelector(".upload-progress");
    const bar = box.querySelector("progress");
    const text = box.querySelector("p");
    const button = form.querySelector("button");
    box.hidden = false;
    button.disabled = true;
    request.upload.addEventListener("progress", (sent) => {
      if (!sent.lengthComputable) return;
      bar.value = (100 * sent.loaded) / sent.total;
      text.textContent = `${Math.floor(bar.value)} %`;
    });
    request.addEventListener("load", () => {
      if (request.status === 201) {
        location.assign(request.getResponseHeader("Location"));
        return;
      }
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      document.getElementById("main").replaceWith(page.getElementById("main"));
      watchUpload(document.querySelector("form[data-upload]"));
      announce(document.querySelector("[role=alert]")?.textContent ?? "");
      document.querySelector("#main [autofocus]")?.focus();
    });
    request.addEventListener("error", () => {
      button.disabled = false;
      text.textContent = form.dataset.upload;
    });
    request.open("POST", form.action);
    request.setRequestHeader("X-Upload", "1");
    request.send(new FormData(form));
  });
}
watchUpload(document.querySelector("form[data-upload]"));

// On a phone, the menu is one line, and the current page may be out of sight.
// Not by scrollIntoView: in Chromium 150, the first Tab would then begin there and miss the skip link.
const here = document.querySelector(".side .here")?.getBoundingClientRect();
if (here) document.querySelector(".side").scrollLeft += here.left + (here.width - innerWidth) / 2;

// A secret is easier to copy when it is selected.
document.getElementById("secret")?.select();

// The key / leads to the search, unless somebody is writing.
document.addEventListener("keydown", (event) => {
  const writes = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writes) return;
  event.preventDefault();
  document.getElementById("find")?.focus();
});
