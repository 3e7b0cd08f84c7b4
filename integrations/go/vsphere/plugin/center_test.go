package plugin

import (
	"net/http"
	"strings"
	"testing"

	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/vsim"
)

// away is a vCenter that can't be reached.
func away(id string) Center {
	return Center{Access: vcenter.Access{Address: "127.0.0.2:1"}, ID: id}
}

func TestSeveralVCentersHaveTheirOwnUsersAndArrays(t *testing.T) {
	at, _, stores := equipped(t)
	other := vsim.Start(t, 1)
	client, err := vcenter.Connect(t.Context(), vcenter.Access{Address: other.Address, User: vsim.User, Password: vsim.Password, Thumbprint: other.Thumbprint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := extension.Register(t.Context(), client, nil); err != nil {
		t.Fatal(err)
	}
	one := Center{Access: accessTo(at.V), ID: at.V.ID(), Arrays: []Array{{"rack1", at.Array.API}}}
	two := Center{Access: accessTo(other), ID: other.ID()}
	first := serveAll(t, at.V, away("gone"), one, two)
	second := &stand{t: t, v: other, server: first.server, http: first.http, log: first.log}
	ada, bob := at.V.SignIn(t, "ada"), other.SignIn(t, "bob")

	if got := first.want(http.StatusOK, ada, http.MethodGet, first.place(stores[0].Ref)+"context", nil); got["array"] != "rack1" || got["user"] != "ada" {
		t.Error(got)
	}
	if got := second.want(http.StatusOK, bob, http.MethodGet, second.root()+"context", nil); got["user"] != "bob" || len(got["arrays"].([]any)) != 0 {
		t.Error("a vCenter shows an array that is not for it", got)
	}
	second.want(http.StatusNotFound, bob, http.MethodGet, second.root()+"arrays/rack1/api/v1/array", nil)
	// A session of one is none of the other, and is not tried there.
	clones := other.Calls("CloneSession")
	second.want(http.StatusUnauthorized, ada, http.MethodGet, second.root()+"context", nil)
	first.want(http.StatusUnauthorized, bob, http.MethodGet, first.root()+"context", nil)
	if other.Calls("CloneSession") != clones {
		t.Error("a session was cloned")
	}
	if got := first.want(http.StatusNotFound, ada, http.MethodGet, "/rest/unknown/root/context", nil); !strings.Contains(got["detail"].(string), "vcenters add") {
		t.Error(got)
	}
	first.want(http.StatusBadGateway, ada, http.MethodGet, "/rest/gone/root/context", nil)
}

func TestThePageOfNoObjectIsOfTheVCenterItCameFrom(t *testing.T) {
	v := vsim.Start(t, 1)
	s := serveAll(t, v, away("gone"), Center{Access: accessTo(v), ID: v.ID()})
	host := s.server.centers[1].host()
	if got := s.want(http.StatusOK, "", http.MethodGet, "/rest/about?client="+host, nil); got["vcenter"] != v.ID() {
		t.Error(got)
	}
	for _, client := range []string{"", "?client=", "?client=other.example.com"} {
		if got := s.want(http.StatusNotFound, "", http.MethodGet, "/rest/about"+client, nil); got["kind"] != "unknown_client" {
			t.Error(client, got)
		}
	}
	// The only vCenter needs no name.
	if got := serve(t, v).want(http.StatusOK, "", http.MethodGet, "/rest/about?client=alias.example.com", nil); got["vcenter"] != v.ID() {
		t.Error(got)
	}
}

func TestVCentersAreConfiguredOnceAndWithKnownArrays(t *testing.T) {
	config := Config{Arrays: []Entry{{Name: "rack1"}, {Name: "rack2"}}}
	if err := config.AddCenter(CenterEntry{Address: "one.example.com", ID: "1", Arrays: []string{"rack3"}}); err == nil {
		t.Error("an array was accepted that is not there")
	}
	for _, it := range []CenterEntry{{Address: "one.example.com", ID: "1", Arrays: []string{"rack2"}}, {Address: "two.example.com", ID: "2"}} {
		if err := config.AddCenter(it); err != nil {
			t.Fatal(err)
		}
	}
	if err := config.AddCenter(CenterEntry{Address: "alias.example.com", ID: "1"}); err == nil || !strings.Contains(err.Error(), "one.example.com") {
		t.Error(err)
	}
	all := []Array{{Name: "rack1"}, {Name: "rack2"}}
	centers, err := config.Centers(all)
	if err != nil || len(centers) != 2 || len(centers[0].Arrays) != 1 || centers[0].Arrays[0].Name != "rack2" || len(centers[1].Arrays) != 2 || centers[1].ID != "2" {
		t.Error(centers, err)
	}
	if _, err := config.Centers(all[:1]); err == nil || !strings.Contains(err.Error(), "one.example.com") {
		t.Error("a vCenter silently lost its only array", err)
	}
	if !config.RemoveCenter("ONE.example.com") || config.RemoveCenter("one.example.com") || len(config.VCenters) != 1 {
		t.Error(config.VCenters)
	}
	config.VCenters[0].ID = ""
	if _, err := config.Centers(all); err == nil {
		t.Error("a vCenter without an identifier was accepted")
	}
}
