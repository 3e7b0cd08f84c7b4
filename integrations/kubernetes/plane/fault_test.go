package plane

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// one checks that the array has exactly one volume for a claim, which is the claim's.
func (s *site) one(t *testing.T, c *cluster, claim string) {
	t.Helper()
	volume := s.volume(t, c.bound(t, claim))
	if found := s.volumesOf(t, claim); len(found) != 1 || found[0].ID != volume.ID {
		t.Errorf("array %s has %d volumes for %s, one of which should be %s", s.name, len(found), claim, volume.ID)
	}
}

// broken creates a claim while the relay loses the response that its volume was made, waits until the provisioner has reported
// an error with a text, and checks that the array has the volume.
func (p *plane) broken(t *testing.T, claim, text string, then func()) {
	t.Helper()
	p.first.relay.loseResponse(http.MethodPost, "volumes", then)
	p.claim(t, claim, "first", "1Gi")
	p.event(t, claim, text)
}

func (p *plane) lostResponse(t *testing.T) {
	p.broken(t, "lost", "can't be reached", func() {})
	if found := p.first.volumesOf(t, "lost"); len(found) != 1 {
		t.Fatalf("the array has %d volumes: what was to be lost is not", len(found))
	}
	if !p.first.relay.mend() {
		t.Fatal("nothing was lost")
	}
	p.first.one(t, p.cluster, "lost")
	p.dropClaims(t, "lost")
}

// frail does something while the response to a request of the driver is lost, and lets the network be until a sidecar has
// called the driver again.
func (p *plane) frail(t *testing.T, method, path string, act func()) {
	t.Helper()
	p.first.relay.loseResponse(method, path, func() {})
	act()
	await(t, "another call after "+method+" "+path, p.first.relay.calledAgain)
	p.first.relay.mend()
}

// lostResponses loses one response to each kind of change that the driver makes.
func (p *plane) lostResponses(t *testing.T) {
	const any = "[^/]+"
	p.claim(t, "frail", "first", "1Gi")
	volume := p.bound(t, "frail")
	p.frail(t, http.MethodPost, "connections", func() { p.pod(t, nodeOne, "user", "frail") })
	p.attached(t, nodeOne, volume)
	if found := p.first.volume(t, volume); len(found.Connections) != 1 {
		t.Errorf("%+v", found.Connections)
	}
	p.frail(t, http.MethodPost, "snapshots", func() { p.takeSnapshot(t, "frail", "frail", "first") })
	p.ready(t, "frail")
	if found, err := p.first.array.API.AllSnapshots(t.Context(), ""); err != nil || len(found) != 1 {
		t.Errorf("%v, %+v", err, found)
	}
	p.frail(t, http.MethodPost, "volumes", func() { p.claim(t, "copy", "first", "1Gi", from("VolumeSnapshot", "frail")) })
	p.first.one(t, p.cluster, "copy")
	// A larger clone is made in two steps; the second one is lost.
	p.frail(t, http.MethodPatch, "volumes/"+any, func() { p.claim(t, "larger", "first", "2Gi", from("VolumeSnapshot", "frail")) })
	p.first.one(t, p.cluster, "larger")
	p.size(t, p.bound(t, "larger"), 2*gib)
	p.frail(t, http.MethodPatch, "volumes/"+any, func() { p.ask(t, "frail", "3Gi") })
	p.grown(t, "frail", "3Gi")
	p.size(t, p.bound(t, "frail"), 3*gib)

	p.frail(t, http.MethodDelete, "connections/"+any+"/"+any, func() { p.endPod(t, "user") })
	p.detached(t, nodeOne, volume)
	p.frail(t, http.MethodDelete, "snapshots/"+any, func() {
		if err := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).Delete(t.Context(), "frail", meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	p.frail(t, http.MethodDelete, "volumes/"+any, func() { p.dropClaims(t, "frail", "copy", "larger") })
}

func (p *plane) revokedToken(t *testing.T) {
	p.broken(t, "revoked", "can't be reached", func() {
		if err := p.first.revokeToken(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if !p.first.relay.mend() {
		t.Fatal("nothing was lost")
	}
	p.event(t, "revoked", "does not accept the API token")
	if found := p.first.volumesOf(t, "revoked"); len(found) != 1 {
		t.Fatalf("the array has %d volumes", len(found))
	}
	p.first.chart.setToken(t, p.first.newToken(t))
	p.first.one(t, p.cluster, "revoked")
	p.dropClaims(t, "revoked")
}

func (p *plane) deadArray(t *testing.T) {
	p.broken(t, "dead", "can't be reached", p.first.array.Kill)
	// The relay passes everything now, and there is no server.
	if !p.first.relay.mend() {
		t.Fatal("nothing was lost")
	}
	p.claim(t, "alive", "second", "1Gi")
	p.second.one(t, p.cluster, "alive")
	p.first.array.Restart(t)
	p.first.one(t, p.cluster, "dead")
	if found := p.first.volumesOf(t, "alive"); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	p.dropClaims(t, "dead", "alive")
}

// lostReplica kills the pod that leads when the array has just made a volume for it. The other pod of the chart takes over.
func (p *plane) lostReplica(t *testing.T) {
	lease := strings.ReplaceAll(p.first.driver, ".", "-")
	leader := func(ctx context.Context) string {
		found, err := p.api.CoordinationV1().Leases(chartNamespace).Get(ctx, lease, meta.GetOptions{})
		if err != nil || found.Spec.HolderIdentity == nil {
			return ""
		}
		return *found.Spec.HolderIdentity
	}
	former := leader(t.Context())
	at := slices.IndexFunc(p.first.chart.replicas, func(pod *replica) bool { return pod.name == former })
	if at < 0 || len(p.first.chart.replicas) != 2 {
		t.Fatalf("the leader is %q, and the pods are %+v", former, p.first.chart.replicas)
	}
	p.first.relay.loseResponse(http.MethodPost, "volumes", func() {
		p.first.chart.replicas[at].kill()
		p.first.relay.mend()
	})
	p.claim(t, "inherited", "first", "1Gi")
	p.first.one(t, p.cluster, "inherited")
	if now := leader(t.Context()); now != p.first.chart.replicas[1-at].name {
		t.Errorf("the leader is %q, and it was %q", now, former)
	}
	p.dropClaims(t, "inherited")
}
