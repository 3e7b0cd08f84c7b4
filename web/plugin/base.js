// In the vSphere Client the page comes through vCenter's proxy: everything it loads does as well. And light or dark is known
// before the first paint, so that nothing flashes. A file of its own, because the page's security policy runs no script that
// stands in the document.
(function () {
  var sdk = window.htmlClientSdk;
  if (!sdk) return;
  if (sdk.getProxiedPluginServerOrigin) {
    var base = document.createElement("base");
    base.href = sdk.getProxiedPluginServerOrigin().replace(/\/$/, "") + "/";
    document.head.appendChild(base);
  }
  var dark = false;
  try {
    dark = /dark/i.test(sdk.app.getTheme().name);
  } catch {
    // The client is not ready yet: the page asks again.
  }
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
