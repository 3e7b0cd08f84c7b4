package csi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// fakeNode stands for the devices of a node: directories and files at the paths where volumes would be.
type fakeNode struct {
	lock      sync.Mutex
	staged    map[string]string // volume → staging path
	published map[string]Published
	trimmed   []string // paths
}

func newFakeNode() *fakeNode {
	return &fakeNode{staged: map[string]string{}, published: map[string]Published{}}
}

func (*fakeNode) Identity(context.Context) (NodeID, error) {
	return NodeID{Name: "node-1", Initiator: "iqn.2001-04.org.example:node-1"}, nil
}

func (n *fakeNode) Stage(_ context.Context, volume Staged) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.staged[volume.Volume] = volume.StagingPath
	return nil
}

func (n *fakeNode) Unstage(_ context.Context, volume, _ string) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	delete(n.staged, volume)
	return nil
}

func (n *fakeNode) Publish(_ context.Context, volume Published) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.staged[volume.Volume] == "" {
		return ErrNotFound
	}
	for _, other := range n.published {
		if other.Volume == volume.Volume && other.Target != volume.Target && volume.Access.OneWriter {
			return ErrPrecondition
		}
	}
	n.published[volume.Target] = volume
	if volume.Access.Block {
		return os.WriteFile(volume.Target, nil, 0o600)
	}
	return os.MkdirAll(volume.Target, 0o750)
}

func (n *fakeNode) Unpublish(_ context.Context, _, target string) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	delete(n.published, target)
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (n *fakeNode) at(volume, path string) error {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.staged[volume] != path && n.published[path].Volume != volume {
		return ErrNotFound
	}
	return nil
}

func (n *fakeNode) Stats(_ context.Context, volume, path string) (Stats, error) {
	return Stats{Bytes: 1 << 30, AvailableBytes: 1 << 30}, n.at(volume, path)
}

func (n *fakeNode) Expand(_ context.Context, volume, path string, required int64) (int64, error) {
	return required, n.at(volume, path)
}

func (n *fakeNode) Trim(_ context.Context, volume, path string) error {
	if err := n.at(volume, path); err != nil {
		return err
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.published[path].Access.Block {
		return ErrUnsupported
	}
	n.trimmed = append(n.trimmed, path)
	return nil
}

// serve starts a driver for an array and returns its endpoint.
func serve(t *testing.T, running *rig.Array, node NodeBackend) (*Driver, string) {
	t.Helper()
	config := Config{Driver: DriverName, Cluster: "test", Prefix: "csi", Location: "here", MaxVolumes: 100}
	return serveAs(t, config, running.API, running.Folder(), node)
}

// serveAs starts a driver whose socket is in a folder.
func serveAs(t *testing.T, config Config, api *array.API, folder string, node NodeBackend) (*Driver, string) {
	t.Helper()
	driver, err := New(config, api, node)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "csi.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- driver.Serve(ctx, "unix://"+socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return driver, "unix://" + socket
		}
		if time.Now().After(deadline) {
			t.Fatal("the driver does not listen")
		}
	}
}

// TestSanity is the suite of the Kubernetes project, against an array. It registers its tests globally, so one process runs
// it once: CSI_ACCESS says for which kind of volumes.
func TestSanity(t *testing.T) {
	running := rig.Start(t)
	kind := os.Getenv("CSI_ACCESS")
	if kind == "" {
		kind = "mount"
	}
	_, endpoint := serve(t, running, newFakeNode())
	config := sanity.NewTestConfig()
	config.Address = endpoint
	config.TargetPath = filepath.Join(running.Folder(), "mount")
	config.StagingPath = filepath.Join(running.Folder(), "staging")
	config.TestVolumeAccessType = kind
	config.TestVolumeParameters = map[string]string{"blockSize": "4096", "csi.storage.k8s.io/pvc/name": "claim"}
	config.TestVolumeMutableParameters = map[string]string{"iops": "5000", "bandwidth": "200Mi", "compression": "high"}
	config.TestSnapshotParameters = map[string]string{"csi.storage.k8s.io/volumesnapshot/name": "snapshot"}
	config.TestNodeVolumeAttachLimit = true
	sanity.Test(t, config)
}
