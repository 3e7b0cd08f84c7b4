// What the vSphere Client gives to a page of a plug-in, as far as ours uses it. The address of the page says who asks, about
// which object, and how the client looks.
(function () {
  var given = new URLSearchParams(location.search);
  var theme = { name: given.get("theme") || "light" };
  var token = given.get("token");
  var listeners = [];
  window.htmlClientSdk = {
    initialize: function (done) {
      setTimeout(done, 0);
    },
    getProxiedPluginServerOrigin: function () {
      return location.origin + "/plugins/ashlar";
    },
    app: {
      getSessionInfo: function (done) {
        setTimeout(function () {
          done({ sessionToken: token });
        }, 0);
      },
      getContextObjects: function () {
        return given.get("object") ? [{ id: given.get("object") }] : [];
      },
      getTheme: function () {
        return theme;
      },
      navigateTo: function (to) {
        document.body.dataset.went = to.targetViewId + " " + to.objectId;
      },
    },
    modal: {
      close: function () {
        document.body.dataset.closed = "yes";
      },
    },
    event: {
      onGlobalRefresh: function () {},
      onThemeChanged: function (run) {
        listeners.push(run);
      },
    },
    // For tests.
    changeTheme: function (name) {
      theme = { name: name };
      listeners.forEach(function (run) {
        run(theme);
      });
    },
    changeToken: function (next) {
      token = next;
    },
  };
})();
