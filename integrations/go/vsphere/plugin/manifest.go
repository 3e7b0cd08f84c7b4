package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/extension"
)

// Privileges that the extension defines in vCenter: to see an array's side of an object, and to change it.
const (
	PrivilegeView   = extension.PrivilegeView
	PrivilegeManage = extension.PrivilegeManage
)

// tree is JSON in the manifest.
type tree = map[string]any

// texts of the manifest, by key.
var texts = map[string]string{
	"name": "Ashlar", "overview": "Ashlar arrays", "volume": "Ashlar", "practice": "Ashlar best practices",
	"create": "Create datastore (Ashlar)", "grow": "Grow (Ashlar)", "snapshot": "Snapshot (Ashlar)", "protect": "Protect (Ashlar)",
}

// Views and actions by the type of object. All are shown only where the server says so, see [Server.visible].
var (
	views   = map[string]string{"Datastore": "volume", "HostSystem": "practice", "ClusterComputeResource": "practice"}
	actions = map[string][]string{"Datastore": {"grow", "snapshot", "protect"}, "ClusterComputeResource": {"create"}}
)

// modalSize is that of an action's window in pixels.
var modalSize = tree{"width": 620, "height": 560}

func uri(view string) string { return "plugin.html?view=" + view }

// Manifest is what vCenter reads at registration: which pages and actions there are, and where.
func Manifest() map[string]any {
	objects := tree{}
	for kind, view := range views {
		page := "configure"
		if kind == "Datastore" {
			page = "monitor"
		}
		one := tree{page: tree{
			"views":      []tree{{"navigationId": view, "labelKey": view, "uri": uri(view)}},
			"dynamicUri": "visible/" + kind,
		}}
		var made []tree
		for _, action := range actions[kind] {
			made = append(made, tree{"id": action, "labelKey": action, "icon": tree{"name": "main"},
				"trigger": tree{"type": "modal", "uri": uri(action), "titleKey": action, "size": modalSize}})
		}
		if made != nil {
			one["menu"] = tree{"actions": made, "dynamicUri": "visible/" + kind}
		}
		objects[kind] = one
	}
	labels := tree{}
	for key, text := range texts {
		labels[key] = tree{"en-US": text}
	}
	return tree{
		"manifestVersion": "1.0.0",
		"requirements":    tree{"plugin.api.version": "1.0.0"},
		"configuration":   tree{"nameKey": "name", "icon": tree{"name": "main"}},
		"global":          tree{"view": tree{"navigationId": "overview", "uri": uri("overview"), "navigationVisible": true}},
		"objects":         objects,
		"definitions": tree{
			"iconSpriteSheet": tree{"uri": "icons.png", "definitions": tree{"main": tree{"x": 0, "y": 0}}},
			"i18n":            tree{"locales": []string{"en-US"}, "definitions": labels},
		},
	}
}

func (s *Server) manifest(out http.ResponseWriter, _ *http.Request) {
	send(out, http.StatusOK, "application/json", Manifest())
}

// visibility is the request of the vSphere Client before it shows a menu or a tab.
type visibility struct {
	ObjectIDs []string `json:"objectIds"`
}

// visible says which views and actions of an object are shown: those that its user has the privilege for, of datastores on
// volumes of an array. Without an answer of vCenter or of an array nothing is hidden: the page says what is wrong.
func (s *Server) visible(out http.ResponseWriter, in *http.Request) {
	in.Body = http.MaxBytesReader(out, in.Body, maxBodyBytes)
	kind := in.PathValue("type")
	if views[kind] == "" {
		s.refuse(out, in, &refusal{http.StatusNotFound, "not_found", "Not found", "the plug-in has no pages for objects of this type"})
		return
	}
	var asked visibility
	if err := json.NewDecoder(in.Body).Decode(&asked); err != nil || len(asked.ObjectIDs) == 0 {
		s.refuse(out, in, invalid("the request names no objects"))
		return
	}
	may := s.visibleOf(in, kind, asked.ObjectIDs[0])
	items := []tree{{"id": views[kind], "visible": may.View}}
	for _, action := range actions[kind] {
		items = append(items, tree{"id": action, "visible": may.Manage})
	}
	send(out, http.StatusOK, "application/json", tree{"apiVersion": "1.0.0", "dynamicItems": items})
}

// visibleOf asks as the user, if the client sent a token, and shows everything otherwise: what is shown gives no right.
func (s *Server) visibleOf(in *http.Request, kind, id string) May {
	everything := May{true, true}
	ref, vcenter, err := parseURN(id)
	if err != nil || ref.Type != kind || in.Header.Get(tokenHeader) == "" {
		return everything
	}
	made := in.WithContext(context.WithoutCancel(in.Context()))
	made.SetPathValue("vcenter", vcenter)
	made.SetPathValue("object", ref.Type+":"+ref.Value)
	answer, err := s.perform(made, false, func(it *request) (any, error) {
		if ref.Type != "Datastore" {
			return it.may, nil
		}
		_, err := s.locate(it)
		return it.may, err
	})
	if err == nil {
		return answer.(May)
	}
	switch asRefusal(err).Kind {
	case "forbidden", "unknown_datastore":
		return May{}
	}
	return everything
}

// parseURN reads an object as the vSphere Client names it: `urn:vmomi:Datastore:datastore-12:` and the vCenter.
func parseURN(text string) (types.ManagedObjectReference, string, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 5 || parts[0] != "urn" || parts[1] != "vmomi" {
		return types.ManagedObjectReference{}, "", fmt.Errorf("%q is no object of vSphere", text)
	}
	return types.ManagedObjectReference{Type: parts[2], Value: parts[3]}, parts[4], nil
}
