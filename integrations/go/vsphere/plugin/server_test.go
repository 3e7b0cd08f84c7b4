package plugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/pin"
	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/site"
	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/vsim"
)

const mib = int64(1) << 20

// stand is a server with a vCenter.
type stand struct {
	t      *testing.T
	v      *vsim.VCenter
	server *Server
	http   *httptest.Server
	log    *lines
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func serve(t *testing.T, v *vsim.VCenter, arrays ...Array) *stand {
	t.Helper()
	return serveAll(t, v, Center{Access: accessTo(v), Arrays: arrays})
}

func accessTo(v *vsim.VCenter) vcenter.Access {
	return vcenter.Access{Address: v.Address, Thumbprint: v.Thumbprint}
}

// serveAll serves several vCenters; addresses are those of one.
func serveAll(t *testing.T, v *vsim.VCenter, centers ...Center) *stand {
	t.Helper()
	made := &stand{t: t, v: v, log: new(lines)}
	made.server = New(centers, slog.New(slog.NewTextHandler(made.log, nil)))
	made.http = httptest.NewTLSServer(made.server.Handler())
	t.Cleanup(func() {
		made.http.Close()
		made.server.Close()
	})
	return made
}

// equipped has an array with two datastores.
func equipped(t *testing.T) (*site.Site, *stand, []datastore.Mapped) {
	t.Helper()
	at := site.Start(t)
	manager := &datastore.Manager{VCenter: at.Client, Array: at.Array.API}
	for _, name := range []string{"first", "second"} {
		if err := manager.Create(t.Context(), datastore.New{Name: name, Cluster: vsim.Cluster, Bytes: 64 * mib}); err != nil {
			t.Fatal(err)
		}
	}
	if err := extension.Register(t.Context(), at.Client, nil); err != nil {
		t.Fatal(err)
	}
	stores, err := manager.List(t.Context(), false)
	if err != nil || len(stores) != 2 {
		t.Fatal(stores, err)
	}
	return at, serve(t, at.V, Array{"rack1", at.Array.API}), stores
}

// place is an object in an address.
func (s *stand) place(ref types.ManagedObjectReference) string {
	return "/rest/" + s.v.ID() + "/" + ref.Type + ":" + ref.Value + "/"
}

func (s *stand) root() string { return "/rest/" + s.v.ID() + "/root/" }

func (s *stand) cluster() types.ManagedObjectReference { return *s.v.Hosts[0].System.Parent }

// ask sends a request and returns the status with the object of the response.
func (s *stand) ask(token, method, path string, body any) (int, map[string]any) {
	s.t.Helper()
	var text io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		text = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, text)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set(tokenHeader, token)
	}
	response, err := s.http.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var object map[string]any
	if len(read) > 0 {
		if err := json.Unmarshal(read, &object); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, read)
		}
	}
	return response.StatusCode, object
}

func (s *stand) want(status int, token, method, path string, body any) map[string]any {
	s.t.Helper()
	got, object := s.ask(token, method, path, body)
	if got != status {
		s.t.Fatalf("%s %s: status %d, want %d: %v", method, path, got, status, object)
	}
	return object
}

// finish waits for work that a request began, and returns it.
func (s *stand) finish(token string, on types.ManagedObjectReference, begun map[string]any) map[string]any {
	s.t.Helper()
	s.server.works.pending.Wait()
	return s.want(http.StatusOK, token, http.MethodGet, s.place(on)+fmt.Sprintf("work/%v", begun["id"]), nil)
}

func TestWithoutASessionOfTheClientNothingIsSaid(t *testing.T) {
	s := serve(t, vsim.Start(t, 1))
	for _, token := range []string{"", "invented"} {
		got := s.want(http.StatusUnauthorized, token, http.MethodGet, s.root()+"context", nil)
		if !strings.Contains(fmt.Sprint(got["detail"]), "reload the page") {
			t.Error(got)
		}
	}
	token := s.v.SignIn(t, "ada")
	s.want(http.StatusOK, token, http.MethodGet, s.root()+"context", nil)
	s.want(http.StatusNotFound, token, http.MethodGet, "/rest/other/root/context", nil)
	s.want(http.StatusNotFound, token, http.MethodGet, "/rest/"+s.v.ID()+"/VirtualMachine:vm-1/context", nil)
	if strings.Contains(s.log.String(), token) || strings.Contains(s.log.String(), "invented") {
		t.Error("the log has a token")
	}
}

func TestAVCenterWithAnotherCertificateIsNotAsked(t *testing.T) {
	v := vsim.Start(t, 1)
	s := serve(t, v)
	s.server.centers[0].access.Thumbprint = strings.Repeat("ab", 32)
	got := s.want(http.StatusBadGateway, v.SignIn(t, "ada"), http.MethodGet, s.root()+"context", nil)
	if !strings.Contains(fmt.Sprint(got["detail"]), "not the pinned one") {
		t.Error(got)
	}
	if v.Calls("CloneSession") != 0 {
		t.Error("a session was cloned")
	}
}

func TestASessionIsClonedOnceAndLoggedOutWhenItIsOld(t *testing.T) {
	s := serve(t, vsim.Start(t, 1))
	now := time.Now()
	var mu sync.Mutex
	s.server.sessions.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	token := s.v.SignIn(t, "ada")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.ask(token, http.MethodGet, s.root()+"context", nil) })
	}
	all.Wait()
	if made := s.v.Calls("CloneSession"); made != 1 {
		t.Errorf("%d sessions were cloned", made)
	}
	outs := s.v.Calls("Logout")
	mu.Lock()
	now = now.Add(sessionLifetime)
	mu.Unlock()
	s.server.sessions.sweep()
	s.server.sessions.ending.Wait()
	if made := s.v.Calls("Logout") - outs; made != 1 {
		t.Errorf("%d sessions were logged out", made)
	}
	// Who has left the client since is refused.
	s.v.SignOut(token)
	s.want(http.StatusUnauthorized, token, http.MethodGet, s.root()+"context", nil)
	other := s.v.SignIn(t, "bob")
	s.want(http.StatusOK, other, http.MethodGet, s.root()+"context", nil)
	outs = s.v.Calls("Logout")
	s.server.Close()
	if made := s.v.Calls("Logout") - outs; made != 1 {
		t.Errorf("%d sessions were logged out at the end", made)
	}
}

func TestASessionThatVCenterEndedIsClonedAgain(t *testing.T) {
	s := serve(t, vsim.Start(t, 1))
	token := s.v.SignIn(t, "ada")
	s.want(http.StatusOK, token, http.MethodGet, s.root()+"context", nil)
	s.server.sessions.now = func() time.Time { return time.Now().Add(2 * privilegesLifetime) }
	s.v.EndSessions()
	got := s.want(http.StatusOK, token, http.MethodGet, s.root()+"context", nil)
	if got["user"] != "ada" || s.v.Calls("CloneSession") != 2 {
		t.Error(got, s.v.Calls("CloneSession"))
	}
}

func TestWorkKeepsItsSessionAndTheServerWaitsForItsEnd(t *testing.T) {
	s := serve(t, vsim.Start(t, 1))
	token, id := s.v.SignIn(t, "ada"), s.v.ID()
	s.want(http.StatusOK, token, http.MethodGet, s.root()+"context", nil)
	user, err := s.server.sessions.acquire(t.Context(), token, id)
	if err != nil {
		t.Fatal(err)
	}
	made := &request{Request: httptest.NewRequest(http.MethodGet, "/", nil), center: s.server.centers[0], user: user, on: subject{ref: s.cluster()}}
	active := make(chan bool, 1)
	_, err = s.server.begin(made, "Wait for the end", func(ctx context.Context, _ *Work) error {
		<-ctx.Done()
		is, err := user.client.SessionManager.SessionIsActive(context.WithoutCancel(ctx))
		active <- is && err == nil
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	s.server.sessions.release(user)
	s.server.sessions.now = func() time.Time { return time.Now().Add(sessionLifetime) }
	outs := s.v.Calls("Logout")
	s.server.sessions.sweep()
	if made := s.v.Calls("Logout") - outs; made != 0 {
		t.Error("the session of work that is under way was logged out")
	}
	s.server.Close()
	if !<-active || s.v.Calls("Logout")-outs != 1 {
		t.Error("the work had no session to the end, or it was not logged out", s.v.Calls("Logout")-outs)
	}
	if _, err := s.server.begin(made, "Too late", nil); asRefusal(err).Status != http.StatusServiceUnavailable {
		t.Error(err)
	}
}

func TestTheManifestNamesPagesThatAreServed(t *testing.T) {
	s := serve(t, vsim.Start(t, 1))
	got := s.want(http.StatusOK, "", http.MethodGet, "/plugin.json", nil)
	labels := got["definitions"].(map[string]any)["i18n"].(map[string]any)["definitions"].(map[string]any)
	pages := 0
	var walk func(any)
	walk = func(value any) {
		switch it := value.(type) {
		case map[string]any:
			for key, inner := range it {
				text, _ := inner.(string)
				switch {
				case strings.HasSuffix(key, "Key") && labels[text] == nil:
					t.Errorf("%s %q has no text", key, text)
				case key == "uri" && strings.HasPrefix(text, document):
					pages++
				case key == "dynamicUri":
					kind := strings.TrimPrefix(text, "visible/")
					answer := s.want(http.StatusOK, "", http.MethodPost, "/"+text, map[string]any{"objectIds": []string{"urn:vmomi:" + kind + ":x:y"}})
					if items := answer["dynamicItems"].([]any); len(items) != 1+len(actions[kind]) {
						t.Errorf("%s: %v", kind, items)
					}
				}
				walk(inner)
			}
		case []any:
			for _, inner := range it {
				walk(inner)
			}
		}
	}
	walk(got)
	if pages != 8 {
		t.Errorf("%d pages", pages)
	}
	response, err := s.http.Client().Get(s.http.URL + "/icons.png")
	if err != nil || response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "image/png" {
		t.Error(response, err)
	}
	_ = response.Body.Close()
}

func TestRegistrationPinsTheServersCertificate(t *testing.T) {
	v := vsim.Start(t, 1)
	folder := t.TempDir()
	show, err := EnsureCertificate(folder+"/tls.pem", folder+"/tls.key", []string{"127.0.0.1", "plugin.example"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := EnsureCertificate(folder+"/tls.pem", folder+"/tls.key", nil)
	if err != nil || !bytes.Equal(show.Certificates[0].Certificate[0], again.Certificates[0].Certificate[0]) {
		t.Fatal("the certificate is another one after a restart", err)
	}
	client, err := vcenter.Connect(t.Context(), vcenter.Access{Address: v.Address, User: vsim.User, Password: vsim.Password, Thumbprint: v.Thumbprint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pem := read(t, folder+"/tls.pem")
	sum := sha256.Sum256(show.Certificates[0].Certificate[0])
	given := &extension.Plugin{URL: "https://127.0.0.1:9443/plugin.json", Certificate: pem}
	for _, plugin := range []*extension.Plugin{given, nil} {
		if err := extension.Register(t.Context(), client, plugin); err != nil {
			t.Fatal(err)
		}
		// A later registration without a plug-in keeps it.
		found := registered(t, client)
		if len(found.Server) != 1 || found.Server[0].Type != "MANIFEST_SERVER" || found.Server[0].ServerThumbprint != pin.Colons(sum[:]) ||
			len(found.Client) != 1 || found.Client[0].Url != given.URL || len(found.PrivilegeList) != 2 {
			t.Errorf("%+v", found)
		}
	}
	emails := func() string { return strings.Join(registered(t, client).Server[0].AdminEmail, ",") }
	if got := emails(); got != "root@localhost" {
		t.Error(got)
	}
	for _, plugin := range []*extension.Plugin{{URL: given.URL, Certificate: pem, AdminEmail: []string{"storage@example.com", "night@example.com"}}, given} {
		if err := extension.Register(t.Context(), client, plugin); err != nil {
			t.Fatal(err)
		}
		// A registration that names none keeps those that are there.
		if got := emails(); got != "storage@example.com,night@example.com" {
			t.Error(got)
		}
	}
	for _, wrong := range []extension.Plugin{{URL: given.URL, Certificate: pem, AdminEmail: []string{"Storage <storage@example.com>"}},
		{URL: given.URL, Certificate: pem, AdminEmail: []string{"nobody"}}, {URL: "http://127.0.0.1/", Certificate: pem}, {URL: given.URL, Certificate: []byte("none")}} {
		if err := extension.Register(t.Context(), client, &wrong); err == nil {
			t.Errorf("%+v was registered", wrong)
		}
	}
}

func TestAUserSeesAndChangesWhatThePrivilegesCover(t *testing.T) {
	at, s, stores := equipped(t)
	first, second := stores[0], stores[1]
	folder := at.Client.ServiceContent.RootFolder
	at.V.Grant("viewer", folder, extension.PrivilegeView)
	at.V.Grant("viewer", first.Ref, extension.PrivilegeView)
	at.V.Grant("owner", first.Ref, extension.PrivilegeManage)
	at.V.Grant("nobody", folder)
	viewer, owner, nobody := at.V.SignIn(t, "viewer"), at.V.SignIn(t, "owner"), at.V.SignIn(t, "nobody")
	own, other, root := s.place(first.Ref)+"arrays/rack1/api/v1/", s.place(second.Ref)+"arrays/rack1/api/v1/", s.root()+"arrays/rack1/api/v1/"
	snapshot := map[string]any{"volume": "first", "suffix": "one"}
	if err := array.Done(at.Array.API.CreateSnapshots(t.Context(), array.NewSnapshots{Volume: nullableText("second"), Suffix: nullableText("theirs")})); err != nil {
		t.Fatal(err)
	}
	for _, it := range []struct {
		token, method, path string
		body                any
		status              int
	}{
		{viewer, "GET", root + "array", nil, 200},
		{viewer, "GET", root + "performance?points=10", nil, 200},
		{viewer, "GET", root + "users", nil, 403},
		{viewer, "GET", root + "settings", nil, 403},
		{viewer, "GET", own + "volumes/first", nil, 200},
		{viewer, "GET", own + "volumes/first/space", nil, 200},
		{viewer, "GET", own + "volumes/second", nil, 403},
		{viewer, "GET", own + "volumes/..%2Fusers", nil, 403},
		{viewer, "GET", own + "volumes", nil, 403},
		{viewer, "GET", own + "array", nil, 403},
		{viewer, "GET", own + "performance?volume=first", nil, 200},
		{viewer, "GET", own + "performance?volume=second", nil, 403},
		{viewer, "GET", own + "performance?volume=first&volume=second", nil, 403},
		{viewer, "GET", own + "performance", nil, 403},
		{viewer, "POST", own + "snapshots", snapshot, 403},
		{viewer, "PATCH", own + "volumes/first", map[string]any{"limits": map[string]any{"iops": 100}}, 403},
		{nobody, "GET", root + "array", nil, 403},
		{nobody, "GET", s.place(first.Ref) + "context", nil, 403},
		{owner, "GET", root + "array", nil, 403},
		{owner, "GET", other + "volumes/second", nil, 403},
		{owner, "GET", own + "volumes/first", nil, 200},
		{owner, "PATCH", own + "volumes/first", map[string]any{"limits": map[string]any{"iops": 100}}, 200},
		{owner, "PATCH", own + "volumes/first", map[string]any{"name": "mine"}, 403},
		{owner, "PATCH", own + "volumes/first", map[string]any{"size": 1}, 403},
		{owner, "PATCH", own + "volumes/second", map[string]any{"limits": map[string]any{"iops": 100}}, 403},
		{owner, "DELETE", own + "volumes/first", nil, 403},
		{owner, "POST", own + "snapshots", snapshot, 201},
		{owner, "POST", own + "snapshots", map[string]any{"volume": "second"}, 403},
		{owner, "POST", own + "snapshots", map[string]any{"volume": "first", "group": "all"}, 403},
		{owner, "POST", own + "schedules", map[string]any{"volume": "first", "name": "n", "rules": []any{map[string]any{"when": "daily", "keep": 2}}}, 201},
		{owner, "POST", own + "schedules", map[string]any{"volume": "second", "name": "m", "rules": []any{map[string]any{"when": "daily", "keep": 2}}}, 403},
		{owner, "DELETE", own + "snapshots/second.theirs", nil, 403},
		{owner, "DELETE", own + "snapshots/first.none", nil, 404},
		{owner, "DELETE", own + "snapshots/first.one?eradicate=true", nil, 403},
		{owner, "DELETE", own + "snapshots/first.one", nil, 204},
		{owner, "POST", s.place(second.Ref) + "grow", map[string]any{"size": 128 * mib}, 403},
		{owner, "POST", s.place(s.cluster()) + "create", map[string]any{"name": "x", "size": mib}, 403},
	} {
		if got, object := s.ask(it.token, it.method, it.path, it.body); got != it.status {
			t.Errorf("%s %s %v: status %d, want %d: %v", it.method, it.path, it.body, got, it.status, object)
		}
	}
	for path, want := range map[string]int{"snapshots": 0, "schedules": 1} {
		list := s.want(200, owner, http.MethodGet, own+path, nil)
		if items := list["items"].([]any); len(items) != want {
			t.Errorf("%s: %v", path, items)
		}
	}
	if text := s.log.String(); !strings.Contains(text, "user=owner method=PATCH") || strings.Contains(text, "user=viewer method=") {
		t.Error("the log does not say who changed what", text)
	}
	for user, want := range map[string]string{viewer: "volume", owner: "volume grow snapshot protect", nobody: ""} {
		answer := s.want(200, user, http.MethodPost, "/visible/Datastore", map[string]any{"objectIds": []string{"urn:vmomi:Datastore:" + first.Ref.Value + ":" + at.V.ID()}})
		var shown []string
		for _, it := range answer["dynamicItems"].([]any) {
			if item := it.(map[string]any); item["visible"] == true {
				shown = append(shown, fmt.Sprint(item["id"]))
			}
		}
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%q is shown, want %q", got, want)
		}
	}
}

func TestDatastoresAreCreatedGrownAndRestoredByTasksOfTheUser(t *testing.T) {
	at, s, stores := equipped(t)
	ada := at.V.SignIn(t, "ada")
	begun := s.want(http.StatusAccepted, ada, http.MethodPost, s.place(s.cluster())+"create", map[string]any{"name": "third", "size": 64 * mib, "array": "rack1"})
	if ended := s.finish(ada, s.cluster(), begun); ended["state"] != done || len(ended["steps"].([]any)) != 7 {
		t.Fatal(ended)
	}
	first := stores[0].Ref
	begun = s.want(http.StatusAccepted, ada, http.MethodPost, s.place(first)+"grow", map[string]any{"size": 128 * mib})
	if ended := s.finish(ada, first, begun); ended["state"] != done {
		t.Fatal(ended)
	}
	s.want(http.StatusCreated, ada, http.MethodPost, s.place(first)+"arrays/rack1/api/v1/snapshots", map[string]any{"volume": "first", "suffix": "one"})
	begun = s.want(http.StatusAccepted, ada, http.MethodPost, s.place(first)+"copy", map[string]any{"snapshot": "first.one", "name": "again"})
	if ended := s.finish(ada, first, begun); ended["state"] != done {
		t.Fatal(ended)
	}
	list := s.want(http.StatusOK, ada, http.MethodGet, s.root()+"datastores", nil)
	if items := list["items"].([]any); len(items) != 4 || items[0].(map[string]any)["name"] != "again" {
		t.Error(items)
	}
	if about := s.want(http.StatusOK, ada, http.MethodGet, s.place(first)+"context", nil); about["size"] != float64(128*mib) || about["cluster"] != vsim.Cluster {
		t.Error(about)
	}
	at.V.BreakOnce("ExpandVmfsDatastore", "")
	begun = s.want(http.StatusAccepted, ada, http.MethodPost, s.place(first)+"grow", map[string]any{"size": 256 * mib})
	if ended := s.finish(ada, first, begun); ended["state"] != failed || !strings.Contains(fmt.Sprint(ended["reason"]), "run the same command again") {
		t.Error(ended)
	}
	tasks := map[string][]types.TaskInfoState{}
	for _, task := range at.V.Tasks() {
		if by, is := task.Reason.(*types.TaskReasonUser); is && by.UserName == "ada" {
			tasks[task.DescriptionId] = append(tasks[task.DescriptionId], task.State)
		}
	}
	for kind, want := range map[string]int{"create": 1, "grow": 2, "clone": 1} {
		if got := tasks[catalogue.Key+"."+kind]; len(got) != want || want == 2 && !slices.Contains(got, types.TaskInfoStateError) {
			t.Errorf("%s: %v of %v", kind, got, tasks)
		}
	}
}

func TestSettingsOfACusterAreListedThenChanged(t *testing.T) {
	at, s, _ := equipped(t)
	for _, host := range at.V.Hosts {
		host.Plant()
	}
	ada, on := at.V.SignIn(t, "ada"), s.cluster()
	before := s.want(http.StatusOK, ada, http.MethodGet, s.place(on)+"practice", nil)
	if deviations(before) == 0 {
		t.Fatal(before)
	}
	listed := s.want(http.StatusOK, ada, http.MethodPost, s.place(on)+"practice", map[string]any{})
	planned := listed["changes"].([]any)
	if len(planned) == 0 || at.V.Hosts[0].Options["Disk.SchedQuantum"] != 8 {
		t.Fatal("a dry run changed something, or lists nothing", planned)
	}
	at.V.Hosts[1].System.Runtime.InMaintenanceMode = true
	begun := s.want(http.StatusAccepted, ada, http.MethodPost, s.place(on)+"practice", map[string]any{"sure": true, "settings": []string{"sched-quantum"}})
	ended := s.finish(ada, on, begun)
	if changes := ended["changes"].([]any); ended["state"] != done || len(changes) != 3 || at.V.Hosts[0].Options["Disk.SchedQuantum"] != 64 || at.V.Hosts[0].Options["VMFS3.EnableBlockDelete"] != 0 {
		t.Error(ended)
	}
	after := s.want(http.StatusOK, ada, http.MethodGet, s.place(on)+"practice", nil)
	if notes := fmt.Sprint(after["notes"]); deviations(after) != deviations(before)-3 || !strings.Contains(notes, "maintenance mode") {
		t.Error(deviations(before), deviations(after), notes)
	}
	host := at.V.Hosts[2].System.Self
	begun = s.want(http.StatusAccepted, ada, http.MethodPost, s.place(host)+"practice", map[string]any{"sure": true})
	if ended := s.finish(ada, host, begun); ended["state"] != done {
		t.Error(ended)
	}
	if left := deviations(s.want(http.StatusOK, ada, http.MethodGet, s.place(host)+"practice", nil)); left != 0 {
		t.Errorf("%d deviations", left)
	}
	at.V.Deny(at.V.Hosts[0].System.Name, true)
	begun = s.want(http.StatusAccepted, ada, http.MethodPost, s.place(on)+"practice", map[string]any{"sure": true})
	if ended := s.finish(ada, on, begun); ended["state"] != failed || !strings.Contains(fmt.Sprint(ended["changes"]), "permission denied") {
		t.Error(ended)
	}
	for _, wrong := range []any{map[string]any{"settings": []string{"colour"}}, map[string]any{"colour": "red"}, "colour"} {
		s.want(http.StatusBadRequest, ada, http.MethodPost, s.place(on)+"practice", wrong)
	}
}

func deviations(report map[string]any) int {
	var made rollout.Report
	text, _ := json.Marshal(report)
	_ = json.Unmarshal(text, &made)
	return made.Deviations()
}

func TestWhatIsWrongWithADatastoreOrAnArrayIsSaid(t *testing.T) {
	at, s, stores := equipped(t)
	ada := at.V.SignIn(t, "ada")
	away, err := array.Connect(array.Access{URL: "http://127.0.0.1:1", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	// Two arrays in one vCenter: the datastore is found on the one that has it, though the other is away.
	two := serve(t, at.V, Array{"away", away}, Array{"rack1", at.Array.API})
	if about := two.want(http.StatusOK, ada, http.MethodGet, two.place(stores[0].Ref)+"context", nil); about["array"] != "rack1" {
		t.Error(about)
	}
	two.want(http.StatusBadRequest, ada, http.MethodGet, two.place(stores[0].Ref)+"arrays/away/api/v1/volumes/first", nil)
	two.want(http.StatusBadRequest, ada, http.MethodGet, two.root()+"datastores", nil)
	two.want(http.StatusNotFound, ada, http.MethodGet, two.root()+"datastores?array=third", nil)
	if got := two.want(http.StatusBadGateway, ada, http.MethodGet, two.root()+"arrays/away/api/v1/array", nil); got["kind"] != "unreachable" {
		t.Error(got)
	}
	// One that has no volume for it: another array's, or local.
	none := serve(t, at.V)
	got := none.want(http.StatusNotFound, ada, http.MethodGet, none.place(stores[0].Ref)+"context", nil)
	if got["kind"] != "unknown_datastore" || !strings.Contains(fmt.Sprint(got["detail"]), "arrays add") {
		t.Error(got)
	}
	if got := serve(t, at.V, Array{"away", away}); got.want(http.StatusBadGateway, ada, http.MethodGet, got.place(stores[0].Ref)+"context", nil)["kind"] != "unreachable" {
		t.Error("an array that can't be asked may have the volume")
	}
	s.want(http.StatusNotFound, ada, http.MethodGet, s.place(types.ManagedObjectReference{Type: "Datastore", Value: "datastore-999"})+"context", nil)
	refused, err := array.Connect(array.Access{URL: at.Array.API.URL, Token: "wrong", CAFile: at.Array.Access.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	third := serve(t, at.V, Array{"rack1", refused})
	if got := third.want(http.StatusBadGateway, ada, http.MethodGet, third.root()+"arrays/rack1/api/v1/array", nil); got["kind"] != "array_token" {
		t.Error(got)
	}
	// One thing at a time.
	waits := make(chan struct{})
	made := &request{Request: httptest.NewRequest(http.MethodGet, "/", nil), center: s.server.centers[0], on: subject{ref: stores[0].Ref}}
	if made.user, err = s.server.sessions.acquire(t.Context(), ada, at.V.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.server.begin(made, "Wait", func(context.Context, *Work) error { <-waits; return nil }); err != nil {
		t.Fatal(err)
	}
	s.want(http.StatusConflict, ada, http.MethodPost, s.place(stores[0].Ref)+"grow", map[string]any{"size": 128 * mib})
	close(waits)
	s.server.works.pending.Wait()
	s.server.sessions.release(made.user)
}
