package csi

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
)

// Keys of the parameters of a VolumeReplicationClass. The orchestrator reads the interval as well: it asks for the state that often.
const (
	paramInterval   = "schedulingInterval"
	paramRemote     = "remoteArray"
	paramMode       = "mode"
	paramOnLinkLoss = "onLinkLoss"
	paramWitness    = "witness"
)

// Keys of the secret of a VolumeReplicationClass: a token of an administrator of the array, and access to the other array.
const (
	secretToken           = "token"
	secretPeerURL         = "peerURL"
	secretPeerToken       = "peerToken"
	secretPeerCertificate = "peerCertificate"
)

// orchestratorPrefix begins parameters that are the orchestrator's own.
const orchestratorPrefix = "replication.storage.openshift.io/"

// Bounds of a recovery point objective in seconds, and what it is if none is given.
const (
	minRPO, maxRPO = 5, 7 * 24 * 3600
	defaultRPO     = 15 * 60
)

// class is what a VolumeReplicationClass says about a replication.
type class struct {
	remote     string // empty: the only remote array
	rpo        int64  // seconds
	mode       array.ReplicationMode
	onLinkLoss array.OnLinkLoss // empty: the array's choice
	witness    string           // empty: as it is
}

func readClass(parameters map[string]string) (class, error) {
	read := class{rpo: defaultRPO, mode: array.Async}
	for key, value := range parameters {
		switch {
		case strings.HasPrefix(key, orchestratorPrefix):
			// Not for drivers.
		case key == paramRemote:
			read.remote = value
		case key == paramInterval:
			interval, err := readInterval(value)
			if err != nil || interval < minRPO || interval > maxRPO {
				return read, invalid("%s is %q: it is the recovery point objective, 5s to 7d", key, value)
			}
			read.rpo = interval
		case key == paramMode:
			if read.mode = array.ReplicationMode(value); !read.mode.Valid() {
				return read, invalid("%s is %q: it can be %s or %s", key, value, array.Async, array.Sync)
			}
		case key == paramOnLinkLoss:
			if read.onLinkLoss = array.OnLinkLoss(value); !read.onLinkLoss.Valid() {
				return read, invalid("%s is %q: it can be %s or %s", key, value, array.Continue, array.Stop)
			}
		case key == paramWitness:
			read.witness = value
		default:
			return read, invalid("there is no parameter %q for replication: there are %s", key,
				strings.Join([]string{paramInterval, paramRemote, paramMode, paramOnLinkLoss, paramWitness}, ", "))
		}
	}
	if read.witness != "" && (read.mode != array.Sync || read.onLinkLoss == array.Continue) {
		return read, invalid("%s is for %s %s with %s %s only", paramWitness, paramMode, array.Sync, paramOnLinkLoss, array.Stop)
	}
	if read.onLinkLoss != "" && read.mode != array.Sync {
		return read, invalid("%s is for %s %s only", paramOnLinkLoss, paramMode, array.Sync)
	}
	return read, nil
}

// readInterval reads a time such as 90s, 15m, 1h or 1d, in whole seconds.
func readInterval(text string) (int64, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		number, err := strconv.ParseInt(days, 10, 32)
		return number * 24 * 3600, err
	}
	period, err := time.ParseDuration(text)
	return int64(period / time.Second), err
}

// new is the request for a replication of this class.
func (c class) new(name, remote string, of protected) array.NewReplication {
	made := array.NewReplication{Name: name, RemoteArray: remote, RpoSeconds: c.rpo, Mode: &c.mode}
	if c.onLinkLoss != "" {
		made.OnLinkLoss = nullable.NewNullableWithValue(c.onLinkLoss)
	}
	if c.witness != "" {
		made.Witness = nullable.NewNullableWithValue(c.witness)
	}
	if of.group != nil {
		made.Group = nullable.NewNullableWithValue(of.group.ID)
	} else {
		made.Volume = nullable.NewNullableWithValue(of.volume.ID)
	}
	return made
}

// changes is what of a replication differs from its class; false if nothing does.
func (c class) changes(of array.Replication) (array.ReplicationChange, bool) {
	var change array.ReplicationChange
	differs := false
	if of.RpoSeconds != c.rpo {
		change.RpoSeconds, differs = nullable.NewNullableWithValue(c.rpo), true
	}
	if of.Mode != c.mode {
		change.Mode, differs = nullable.NewNullableWithValue(c.mode), true
	}
	if c.onLinkLoss != "" && array.Value(of.OnLinkLoss) != c.onLinkLoss {
		change.OnLinkLoss, differs = nullable.NewNullableWithValue(c.onLinkLoss), true
	}
	if c.witness != "" && array.Value(of.Witness) != c.witness {
		change.Witness, differs = nullable.NewNullableWithValue(c.witness), true
	}
	return change, differs
}

// remoteArray returns the name of the array to replicate to.
func (c class) remoteArray(ctx context.Context, api *array.API) (string, error) {
	known, err := remoteArrays(ctx, api)
	if err != nil {
		return "", err
	}
	var names []string
	for _, it := range known {
		if it.Name == c.remote {
			return it.Name, nil
		}
		if it.Name != c.witness {
			names = append(names, it.Name)
		}
	}
	switch {
	case c.remote != "":
		return "", invalid("%s is %q, and the array is paired with: %s", paramRemote, c.remote, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", status.Error(codes.FailedPrecondition, "the array is paired with no other array: see `ashlar remote-array`")
	}
	return "", invalid("%s is needed, as the array is paired with several: %s", paramRemote, strings.Join(names, ", "))
}

func remoteArrays(ctx context.Context, api *array.API) ([]array.RemoteArray, error) {
	return array.All(func(limit, offset int) ([]array.RemoteArray, int, error) {
		list, err := array.Decode[array.RemoteArrays](api.ListRemoteArrays(ctx, &array.ListRemoteArraysParams{Limit: &limit, Offset: &offset}))
		return list.Items, list.Total, err
	})
}

// authorized is the array with the token of the secret: promoting and demoting are for administrators, and the driver's own token is
// not to be one of them.
func (d *Driver) authorized(secrets map[string]string) *array.API {
	if secrets[secretToken] == "" {
		return d.api
	}
	return d.api.As(strings.TrimSpace(secrets[secretToken]))
}

// peerAccess connects to the other array as the secret says; nil if it does not. Nothing is sent.
func peerAccess(secrets map[string]string) (*array.API, error) {
	if secrets[secretPeerURL] == "" {
		return nil, nil
	}
	if secrets[secretPeerToken] == "" {
		return nil, invalid("the secret has %s and no %s", secretPeerURL, secretPeerToken)
	}
	api, err := array.Connect(array.Access{
		URL: secrets[secretPeerURL], Token: strings.TrimSpace(secrets[secretPeerToken]), CA: secrets[secretPeerCertificate],
		Program: "ashlar-csi/" + array.Version,
	})
	if err != nil {
		return nil, invalid("the other array of the secret: %v", err)
	}
	return api, nil
}
