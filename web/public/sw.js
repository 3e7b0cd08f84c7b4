// Keeps the document of the pages and its files, so that a reload shows the interface, and the state of the array, while
// the array does not respond. Data is never kept: requests to /api are not touched.
const CACHE = "ashlar-shell";
/** Milliseconds that a page load waits for the array before the kept document is used. */
const WAIT_MS = 1500;

/** The files that a document names. */
async function named(document) {
  const text = await document.clone().text();
  return [...text.matchAll(/"(\/(?:assets\/[^"]+|scheme\.js|favicon\.svg))"/g)].map((it) => it[1]);
}

/** Keeps a document with the files that it names; those of another version are dropped. */
async function keep(document) {
  const wanted = await named(document);
  if (wanted.length === 0) return;
  const cache = await caches.open(CACHE);
  const before = await cache.match("/");
  const changed = before !== undefined && String(await named(before)) !== String(wanted);
  if (changed) await Promise.all((await cache.keys()).map((it) => cache.delete(it)));
  const known = (await cache.keys()).map((it) => new URL(it.url).pathname);
  await Promise.all(wanted.filter((path) => !known.includes(path)).map((path) => cache.add(path)));
  await cache.put("/", document);
}

async function page(event) {
  const asked = fetch(event.request);
  const kept = await caches.match("/");
  event.waitUntil(asked.then((answer) => (answer.ok ? keep(answer.clone()) : undefined)).catch(() => undefined));
  if (!kept) return asked;
  const late = new Promise((done) => setTimeout(() => done(kept.clone()), WAIT_MS));
  return Promise.race([asked.catch(() => kept.clone()), late]);
}

async function file(request) {
  const kept = await caches.match(request, { ignoreVary: true });
  if (kept) return kept;
  const answer = await fetch(request);
  if (answer.ok) await (await caches.open(CACHE)).put(request, answer.clone());
  return answer;
}

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(fetch("/").then((answer) => (answer.ok ? keep(answer) : undefined)));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { pathname, origin } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== self.location.origin || pathname.startsWith("/api/")) return;
  if (event.request.mode === "navigate") event.respondWith(page(event));
  else if (pathname.startsWith("/assets/") || pathname === "/scheme.js" || pathname === "/favicon.svg") event.respondWith(file(event.request));
});
