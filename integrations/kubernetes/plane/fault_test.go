package plane

import (
	"context"
	"testing"
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
	p.first.relay.loseResponse(then)
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
	// The relay passes everything now, and nobody is there.
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
