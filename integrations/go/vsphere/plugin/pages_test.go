package plugin

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/site"
	"ashlar/integrations/vsphere/vsim"
)

// webVariable names the folder with the tests of pages. They are skipped without it.
const webVariable = "ASHLAR_WEB"

// TestPages shows the pages in a browser, as the vSphere Client does: through a proxy, with its script, over a vCenter with
// two arrays. The browser's side is web/e2e/plugin.
func TestPages(t *testing.T) {
	web := os.Getenv(webVariable)
	if web == "" {
		t.Skipf("%s does not name the folder of the pages; `cargo xtask integrations vsphere` sets it", webVariable)
	}
	at, other := site.Start(t), rig.Start(t)
	stores := populated(t, at)
	s := serve(t, at.V, Array{"rack1", at.Array.API}, Array{"rack2", other.API})
	front := httptest.NewServer(client(t, s, at, other, stores))
	t.Cleanup(front.Close)
	words := []string{"playwright", "test", "--config", "playwright.plugin.config.ts"}
	browser := exec.CommandContext(t.Context(), "npx", words...)
	browser.Dir = web
	browser.Env = append(os.Environ(), "VSPHERE_CLIENT="+front.URL)
	if out, err := browser.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, s.log)
	}
}

// populated has datastores with work on them, hosts that deviate, and a datastore that is on no array.
func populated(t *testing.T, at *site.Site) map[string]types.ManagedObjectReference {
	t.Helper()
	if err := extension.Register(t.Context(), at.Client, nil); err != nil {
		t.Fatal(err)
	}
	manager := &datastore.Manager{VCenter: at.Client, Array: at.Array.API}
	for _, name := range []string{"production", "test"} {
		if err := manager.Create(t.Context(), datastore.New{Name: name, Cluster: vsim.Cluster, Bytes: 64 * mib}); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range at.V.Hosts {
		host.Plant()
	}
	list, err := manager.List(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]types.ManagedObjectReference{}
	for _, it := range list {
		stores[it.Name] = it.Ref
		if it.Name == "production" {
			at.V.Place(at.V.Machines()[0], it.Ref)
			at.IO(t, at.V.Hosts[0].Initiator(), int(it.Volume.Connections[0].Lun), "write -P 7 0 8M", "read 0 8M", "discard 0 1M", "write -z 2M 1M")
		}
	}
	stores["local"] = at.V.Map().Any("Datastore").Reference()
	for _, ref := range at.V.Map().AllReference("Datastore") {
		if ref.Reference() != stores["production"] && ref.Reference() != stores["test"] {
			stores["local"] = ref.Reference()
		}
	}
	taken := array.NewSnapshots{Volume: nullableText("production"), Suffix: nullableText("before")}
	if err := array.Done(at.Array.API.CreateSnapshots(t.Context(), taken)); err != nil {
		t.Fatal(err)
	}
	return stores
}

// client stands in for the vSphere Client: its script, its proxy to the plug-in's server, and what tests change of the world.
func client(t *testing.T, s *stand, at *site.Site, other *rig.Array, stores map[string]types.ManagedObjectReference) http.Handler {
	target, err := url.Parse(s.http.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.http.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	mux := http.NewServeMux()
	mux.Handle("/plugins/ashlar/", http.StripPrefix("/plugins/ashlar", proxy))
	mux.HandleFunc("GET /api/ui/htmlClientSdk.js", func(out http.ResponseWriter, in *http.Request) {
		http.ServeFile(out, in, "testdata/htmlClientSdk.js")
	})
	urn := func(ref types.ManagedObjectReference) string {
		return fmt.Sprintf("urn:vmomi:%s:%s:%s", ref.Type, ref.Value, at.V.ID())
	}
	mux.HandleFunc("GET /stand", func(out http.ResponseWriter, _ *http.Request) {
		objects := map[string]string{"cluster": urn(s.cluster())}
		for name, ref := range stores {
			objects[name] = urn(ref)
		}
		for number, host := range at.V.Hosts {
			objects[fmt.Sprintf("host%d", number)] = urn(host.System.Self)
		}
		_ = json.NewEncoder(out).Encode(objects)
	})
	mux.HandleFunc("POST /stand/session/{user}", func(out http.ResponseWriter, in *http.Request) {
		user := in.PathValue("user")
		switch user {
		case "viewer":
			at.V.Grant(user, at.Client.ServiceContent.RootFolder, extension.PrivilegeView)
			at.V.Grant(user, stores["production"], extension.PrivilegeView)
		case "nobody":
			at.V.Grant(user, stores["production"])
		}
		_ = json.NewEncoder(out).Encode(at.V.SignIn(t, user))
	})
	mux.HandleFunc("POST /stand/{what}", func(out http.ResponseWriter, in *http.Request) {
		switch in.PathValue("what") {
		case "maintenance":
			at.V.Hosts[1].System.Runtime.InMaintenanceMode = true
		case "disconnected":
			at.V.Hosts[2].System.Runtime.ConnectionState = types.HostSystemConnectionStateDisconnected
		case "broken":
			at.V.BreakOnce("ExpandVmfsDatastore", "")
		case "stop":
			at.Array.Kill()
		case "start":
			at.Array.Restart(t)
		case "tasks":
			states := map[string]int{}
			for _, task := range at.V.Tasks() {
				states[task.DescriptionId+" "+string(task.State)]++
			}
			_ = json.NewEncoder(out).Encode(states)
			return
		}
		out.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /stand/leave/{token}", func(out http.ResponseWriter, in *http.Request) {
		at.V.SignOut(in.PathValue("token"))
		s.server.sessions.mu.Lock()
		defer s.server.sessions.mu.Unlock()
		for key := range s.server.sessions.open {
			s.server.sessions.drop(key)
		}
		out.WriteHeader(http.StatusNoContent)
	})
	return mux
}
