package sra

import (
	"context"
	"encoding/xml"

	"ashlar/integrations/array"
)

type peerArray struct {
	ID string `xml:"id,attr"`
}

type peerArrays struct{ PeerArray []peerArray }

type shownArray struct {
	ID       string `xml:"id,attr"`
	Name     string
	Model    arrayModel
	Software softwareVersion `xml:"ReplicationSoftware"`
	Peers    *peerArrays     `xml:"PeerArrays"`
}

func discoverArrays(ctx context.Context, c *call) (any, error) {
	about, err := array.Decode[array.Array](c.api.ShowArray(ctx))
	if err != nil {
		return nil, err
	}
	remotes, err := c.remotes(ctx)
	if err != nil {
		return nil, err
	}
	shown := shownArray{ID: about.Serial, Name: about.Name, Model: arrayModel{model, said("adapter.vendor")},
		Software: softwareVersion{software, release}}
	if len(remotes) > 0 {
		shown.Peers = &peerArrays{}
	}
	for _, remote := range remotes {
		shown.Peers.PeerArray = append(shown.Peers.PeerArray, peerArray{remote.Serial})
	}
	return struct {
		XMLName xml.Name   `xml:"Arrays"`
		Array   shownArray `xml:"Array"`
	}{Array: shown}, nil
}

func discoverDevices(ctx context.Context, c *call) (any, error) {
	replicated, volumes, err := c.replicated(ctx)
	if err != nil {
		return nil, err
	}
	var sources []consistencyGroup
	var targets []targetGroup
	for _, it := range replicated {
		if it.Role == source {
			sources = append(sources, sourceGroup(it, volumes, c.in.PeerArrayID))
		} else {
			targets = append(targets, c.targetGroup(it, volumes))
		}
	}
	var found replicatedDevices
	if len(sources) > 0 {
		found.ConsistencyGroups = &consistencyGroups{sources}
	}
	if len(targets) > 0 {
		found.TargetGroups = &targetsDone{targets}
	}
	return found, nil
}

// replicated returns the replications with the array that the command names, and the volumes of this array by id.
func (c *call) replicated(ctx context.Context) ([]array.Replication, map[string]array.Volume, error) {
	peer, err := c.peer(ctx)
	if err != nil {
		return nil, nil, err
	}
	volumes, err := c.volumes(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := c.api.AllReplications(ctx)
	if err != nil {
		return nil, nil, err
	}
	var found []array.Replication
	for _, it := range all {
		if it.RemoteArray == peer && len(it.Volumes) > 0 {
			found = append(found, it)
		}
	}
	return found, volumes, nil
}

// sourceGroup describes the volumes of a source. Those that take no writes have no identity: hosts do not use them.
func sourceGroup(it array.Replication, volumes map[string]array.Volume, peer string) consistencyGroup {
	state := readWrite
	if it.Progress.State == array.ReplicationDemoting || it.Progress.State == array.ReplicationDemoted {
		state = readOnly
	}
	made := consistencyGroup{ID: it.ID, State: state, Name: it.Name, TargetGroup: keyed{keyOf(peer, it.ID)}}
	for _, volume := range it.Volumes {
		device := sourceDevice{ID: volume.ID, State: state, Name: volume.Name, TargetDevice: keyed{keyOf(peer, volume.ID)}}
		if own, there := volumes[volume.ID]; there && state == readWrite {
			device.Identity = wwn(own)
		}
		made.SourceDevices = append(made.SourceDevices, device)
	}
	return made
}

// targetGroup describes what a target has: volumes once it was promoted, and clones while a failover is tested.
func (c *call) targetGroup(it array.Replication, volumes map[string]array.Volume) targetGroup {
	made := targetGroup{Key: keyOf(c.serial, it.ID), State: readOnly, Name: it.Name}
	promoted := isPromoted(it)
	if promoted {
		made.ID, made.State = it.ID, readWrite
	}
	for _, volume := range it.Volumes {
		device := targetDevice{Key: keyOf(c.serial, volume.ID), State: readOnly, Name: volume.Name}
		if own, there := volumes[array.Value(volume.PromotedID)]; there && promoted {
			device.ID, device.State, device.Name, device.Identity = own.ID, readWrite, own.Name, wwn(own)
		}
		if clone, there := volumes[array.Value(volume.TestID)]; there {
			device.Snapshot = snapshotOf(clone, pointOf(it))
		}
		made.add(device)
	}
	return made
}

// isPromoted reports whether hosts can use the volumes of a target.
func isPromoted(it array.Replication) bool {
	return it.Role == target && (it.Progress.State == array.ReplicationPromoted || it.Progress.State == array.ReplicationSplit)
}
