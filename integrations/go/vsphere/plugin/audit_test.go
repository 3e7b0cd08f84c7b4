package plugin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/datastore"
)

func TestTheAuditLogOfTheArrayNamesTheUserOfVCenter(t *testing.T) {
	at, _, stores := equipped(t)
	yes := true
	create := array.NewToken{Name: "vsphere", OnBehalf: &yes, Role: nullable.NewNullableWithValue(array.RoleOperator)}
	made, err := array.Decode[array.APIToken](at.Array.API.CreateToken(t.Context(), create))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, it := range []struct {
		token string
		acts  bool
	}{{made.Secret.MustGet(), true}, {at.Array.Access.Token, false}} {
		access := array.Access{URL: at.Array.API.URL, Token: it.token, CAFile: at.Array.Access.CAFile}
		acts, err := ActsForUsers(t.Context(), access)
		if err != nil || acts != it.acts {
			t.Fatal(acts, err)
		}
		access.OnBehalf = acts
		api, err := array.Connect(access)
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, at.V, Array{"rack1", api})
		ada := at.V.SignIn(t, `VSPHERE.LOCAL\Ada Müller`)
		s.want(http.StatusCreated, ada, http.MethodPost, s.place(stores[0].Ref)+"arrays/rack1/api/v1/snapshots", map[string]any{"volume": "first"})
		begun := s.want(http.StatusAccepted, ada, http.MethodPost, s.place(s.cluster())+"create", map[string]any{"name": "third", "size": 64 * mib})
		if ended := s.finish(ada, s.cluster(), begun); ended["state"] != done {
			t.Fatal(ended)
		}
		// The generated client leaves the audit log out.
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.Array.API.URL+"/api/v1/audit", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		type trail struct {
			Items []struct{ User, Action string } `json:"items"`
		}
		log, err := array.Decode[trail](at.Array.API.Client.Client.Do(request))
		if err != nil {
			t.Fatal(err)
		}
		want := " for VSPHERE.LOCAL\\Ada Müller at " + at.V.Address
		named := map[string]bool{}
		for _, entry := range log.Items {
			if strings.HasSuffix(entry.User, want) {
				named[entry.Action] = true
			}
		}
		if it.acts && (!named["CreateSnapshots"] || !named["CreateVolume"]) {
			t.Errorf("%v of %+v", named, log.Items)
		}
		if it.acts {
			count = strings.Count(fmt.Sprint(log.Items), want)
		} else if more := strings.Count(fmt.Sprint(log.Items), want) - count; more != 0 {
			t.Errorf("%d entries name a user that the token may not name", more)
		}
		if err := (&datastore.Manager{VCenter: at.Client, Array: at.Array.API}).Delete(t.Context(), "third"); err != nil {
			t.Fatal(err)
		}
	}
}
