package csi

import (
	"fmt"
	"testing"

	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc/codes"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

func TestAReplicaThatAWitnessHasPromotedIsAdopted(t *testing.T) {
	one, two := newClusters(t)
	third := rig.Start(t, "--replication", "127.0.0.1:0")
	for _, c := range []*cluster{one, two} {
		key := got(array.Decode[array.PairingKey](third.API.CreatePairingKey(t.Context())))(t)
		pair := array.NewRemoteArray{Address: third.Replication, Key: key.Key, Name: nullable.NewNullableWithValue("third")}
		got(array.Decode[array.RemoteArray](c.API.PairRemoteArray(t.Context(), pair)))(t)
	}
	volume := one.create("data")
	of := ofHandle(volume)
	// The witness is no array to replicate to, so only one is left.
	mode := map[string]string{paramInterval: "30s", paramMode: "sync", paramWitness: "third"}
	ok(t, one.enable(of, mode), one.enable(of, mode))
	if made := one.replications(); len(made) != 1 || array.Value(made[0].Witness) != "third" || made[0].RemoteArray != "second" {
		t.Fatalf("%+v", made)
	}
	eventually(t, "in sync with a witness that would decide", func() error {
		progress := one.replications()[0].Progress
		if sync := array.Value(progress.Sync); progress.State != array.InSync || !sync.WitnessProblem.IsNull() {
			return fmt.Errorf("it is %s: %s", progress.State, array.Value(sync.WitnessProblem))
		}
		return nil
	})
	one.writes(volume, 1)
	one.Kill()
	eventually(t, "the witness's decision", func() error {
		if state := two.replications()[0].Progress.State; state != array.ReplicationPromoted {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	ok(t, two.promote(of, false))
	two.reads(volume, 1)
	two.writes(volume, 2)
	one.Restart(t)
	eventually(t, "the former source to give way by itself", func() error {
		if state := one.replications()[0].Progress.State; state != array.ReplicationDemoted {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	ok(t, one.demote(of, false))
	// Nothing was lost, so nothing has to be discarded by force.
	one.synchronized(of, false)
	ok(t, two.demote(of, false))
	eventually(t, "the promotion at home", func() error { return one.promote(of, false) })
	one.reads(volume, 2)
}

func TestADemotionEndsThoughTheOtherArrayWasPromotedBefore(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	one.writes(volume, 1)
	ok(t, one.enable(of, hourly))
	one.healthy(of)
	// The source continues while the other array is promoted, and hears nothing of that: it transfers nothing.
	ok(t, array.Done(one.API.PauseReplication(t.Context(), one.replications()[0].ID)))
	one.writes(volume, 2)
	ok(t, two.promote(of, true))
	two.writes(volume, 3)
	one.driver.demotePatience = 0
	ok(t, one.demote(of, false), one.demote(of, false))
	_, err := one.resync(of, false, one.secrets)
	want(t, codes.FailedPrecondition, err)
	one.reads(volume, 2)
	one.synchronized(of, true)
	ok(t, two.demote(of, false))
	eventually(t, "the promotion at home", func() error { return one.promote(of, false) })
	one.reads(volume, 3)
}
