// Light or dark is known before the first paint, so that nothing flashes. A file of its own, because the page's
// security policy runs no script that stands in the document.
(function () {
  var chosen = "auto";
  try {
    chosen = localStorage.getItem("mantine-color-scheme-value") || "auto";
  } catch {
    // Storage is switched off: the system's scheme it is.
  }
  var dark = chosen === "dark" || (chosen === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
