// Package csi is the Container Storage Interface driver (CSI 1.13): volumes, snapshots and group snapshots of an array for
// Kubernetes and other container orchestrators; with CSI-Addons, replication of volumes to another array.
//
// The controller part speaks to the array only, and keeps no state of its own: objects are found by labels, so that every
// call can be repeated after any failure. The node part checks requests and leaves devices to a [NodeBackend].
package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"ashlar/integrations/array"
)

// DriverName is the driver's usual name.
const DriverName = "csi.ashlar.io"

// Config is what a driver is started with.
type Config struct {
	// Driver is its name; [DriverName] unless several arrays are used by one cluster.
	Driver string
	// Cluster distinguishes the objects of several clusters on one array.
	Cluster string
	// Prefix of names on the array, at most 16 letters and digits.
	Prefix string
	// Location is the topology segment of nodes that reach the array; empty: no topology.
	Location string
	// MaxVolumes is the number of volumes that a node takes; 0: not limited.
	MaxVolumes int64
}

// Driver serves the services of a controller, of a node, or both.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedGroupControllerServer
	csi.UnimplementedSnapshotMetadataServer
	csi.UnimplementedNodeServer

	config Config
	api    *array.API
	node   NodeBackend
	busy   busy
	serial onceSerial
	// demotePatience is how long a demotion waits for its last point.
	demotePatience time.Duration
}

// New makes a driver. Without an API it has no controller services; without a back end no node services.
func New(config Config, api *array.API, node NodeBackend) (*Driver, error) {
	if config.Cluster == "" && api != nil {
		return nil, errors.New("a controller needs the name of its cluster: it distinguishes its volumes from those of other clusters")
	}
	return &Driver{config: config, api: api, node: node, demotePatience: demotePatience}, nil
}

// Serve answers at a Unix socket until the context ends.
func (d *Driver) Serve(ctx context.Context, endpoint string) error {
	address, err := url.Parse(endpoint)
	if err != nil || address.Scheme != "unix" {
		return fmt.Errorf("%q is no endpoint: write it as unix:///PATH", endpoint)
	}
	path := address.Path
	if path == "" {
		path = address.Opaque
	}
	// A socket that an earlier process left there.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged), grpc.StreamInterceptor(loggedStream))
	csi.RegisterIdentityServer(server, d)
	if d.api != nil {
		csi.RegisterControllerServer(server, d)
		csi.RegisterGroupControllerServer(server, d)
		csi.RegisterSnapshotMetadataServer(server, d)
	}
	if d.node != nil {
		csi.RegisterNodeServer(server, d)
	}
	d.registerAddons(server)
	go func() {
		<-ctx.Done()
		server.GracefulStop()
	}()
	return server.Serve(listener)
}

// logged logs calls without their secrets, and turns errors into the codes of the specification.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	klog.V(4).InfoS("call", "method", info.FullMethod, "request", protosanitizer.StripSecrets(request))
	response, err := handle(ctx, request)
	if err == nil {
		return response, nil
	}
	err = coded(err)
	klog.ErrorS(err, "call failed", "method", info.FullMethod, "request", protosanitizer.StripSecrets(request))
	return nil, err
}

func loggedStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := coded(handle(server, stream))
	if err != nil {
		klog.ErrorS(err, "call failed", "method", info.FullMethod)
	}
	return err
}

// kinds are the gRPC codes of the array's kinds of errors.
var kinds = map[string]codes.Code{
	array.NotFound:     codes.NotFound,
	array.Conflict:     codes.AlreadyExists,
	array.Differs:      codes.AlreadyExists,
	array.Invalid:      codes.InvalidArgument,
	array.Precondition: codes.FailedPrecondition,
	array.Stale:        codes.Aborted,
	array.Forbidden:    codes.PermissionDenied,
	array.Unauthorized: codes.Unauthenticated,
	array.Skew:         codes.FailedPrecondition,
	array.Unreachable:  codes.Unavailable,
	array.Failed:       codes.Internal,
}

// coded gives an error its gRPC code.
func coded(err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	var refused *array.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.As(err, &refused):
		if code, known := kinds[refused.Kind]; known {
			return status.Error(code, err.Error())
		}
	}
	return status.Error(codes.Internal, err.Error())
}

func invalid(format string, arguments ...any) error {
	return status.Errorf(codes.InvalidArgument, format, arguments...)
}

// busy holds what calls are working on. The specification leaves it to the driver what a second call for the same volume
// gets. It waits, since a volume that two nodes share is attached to both at once, and an error would be reported as a failure
// of the attachment.
type busy struct {
	lock sync.Mutex
	// keys have a channel that is closed when their call has ended.
	keys map[string]chan struct{}
}

// enter waits until no other call works on a key. It returns Aborted, which makes the orchestrator come again, if the context ends
// before.
func (b *busy) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		before, done := b.take(key)
		if before == nil {
			return func() {
				b.lock.Lock()
				delete(b.keys, key)
				b.lock.Unlock()
				close(done)
			}, nil
		}
		select {
		case <-before:
		case <-ctx.Done():
			return nil, status.Errorf(codes.Aborted, "another call works on %s", key)
		}
	}
}

// take makes a key this call's, or returns what is closed when the call has ended that has it.
func (b *busy) take(key string) (before, done chan struct{}) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if before := b.keys[key]; before != nil {
		return before, nil
	}
	if b.keys == nil {
		b.keys = make(map[string]chan struct{})
	}
	done = make(chan struct{})
	b.keys[key] = done
	return nil, done
}

// onceSerial is the serial number of the array, asked for until it is known.
type onceSerial struct {
	lock  sync.Mutex
	value string
}

// arraySerial returns the serial number of the array, and refuses an array whose version does not fit.
func (d *Driver) arraySerial(ctx context.Context) (string, error) {
	d.serial.lock.Lock()
	defer d.serial.lock.Unlock()
	if d.serial.value != "" {
		return d.serial.value, nil
	}
	found, err := d.api.Check(ctx)
	if err != nil {
		return "", err
	}
	d.serial.value = found.ID
	return found.ID, nil
}
