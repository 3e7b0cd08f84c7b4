package csi

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Registration makes a node's driver known to its kubelet, which finds the socket in its folder of plug-ins.
type Registration struct {
	registration.UnimplementedRegistrationServer
	// Driver is the driver's name, Endpoint the path of its socket on the host.
	Driver, Endpoint string

	registered atomic.Bool
}

// GetInfo returns name and socket of the driver.
func (r *Registration) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.Driver, Endpoint: r.Endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus logs what the kubelet did.
func (r *Registration) NotifyRegistrationStatus(_ context.Context, result *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	r.registered.Store(result.GetPluginRegistered())
	if !result.GetPluginRegistered() {
		klog.ErrorS(errors.New(result.GetError()), "the kubelet did not register the driver")
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Registered reports whether the kubelet has registered the driver.
func (r *Registration) Registered() bool { return r.registered.Load() }

// Serve answers the kubelet at a socket in its folder until the context ends.
func (r *Registration) Serve(ctx context.Context, folder string) error {
	path := filepath.Join(folder, r.Driver+"-reg.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	go func() {
		<-ctx.Done()
		server.GracefulStop()
	}()
	return server.Serve(listener)
}
