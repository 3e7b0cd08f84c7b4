package plane

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// auditPolicy records what the chart's service accounts ask for. A sidecar works without some of the things that it may not
// do, so that no other check would find a verb that is missing.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, userGroups: ["system:serviceaccounts:` + chartNamespace + `"]}
  - {level: None}
`

// writePolicy writes the policy and returns its path.
func (c *cluster) writePolicy(t testing.TB) string {
	t.Helper()
	path := filepath.Join(c.folder, "audit.yaml")
	if err := os.WriteFile(path, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *cluster) auditLog() string { return filepath.Join(c.folder, "audit.log") }

// asked is a kind of request.
type asked struct {
	User, Verb, Group, Resource, Subresource string
}

// audited returns the requests that were allowed, and those that were forbidden.
func (c *cluster) audited(t testing.TB) (allowed, forbidden map[asked]int) {
	t.Helper()
	log, err := os.Open(c.auditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	allowed, forbidden = map[asked]int{}, map[asked]int{}
	for lines := json.NewDecoder(log); lines.More(); {
		var event struct {
			Verb        string
			User        struct{ Username string }
			ObjectRef   *struct{ APIGroup, Resource, Subresource string }
			Annotations map[string]string
		}
		if err := lines.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if event.ObjectRef == nil {
			continue
		}
		of := event.ObjectRef
		key := asked{event.User.Username, event.Verb, of.APIGroup, of.Resource, of.Subresource}
		if event.Annotations["authorization.k8s.io/decision"] == "allow" {
			allowed[key]++
		} else {
			forbidden[key]++
		}
	}
	return allowed, forbidden
}

// rolesSuffice fails the test if a sidecar asked for something that the chart's roles do not permit.
func (c *cluster) rolesSuffice(t testing.TB) {
	t.Helper()
	allowed, forbidden := c.audited(t)
	for request, times := range forbidden {
		t.Errorf("forbidden %d times: %+v", times, request)
	}
	// The check itself must see requests.
	if len(allowed) == 0 {
		t.Error("no request of the chart's service accounts was recorded")
	}
}
