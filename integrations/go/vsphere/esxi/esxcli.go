// Package esxi reads the settings of a host through vCenter and changes them. What vSphere's API does not have, it does with
// the host's esxcli, which vCenter passes on.
package esxi

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/vcenter"
)

// Host is a host of the inventory.
type Host struct {
	mo.HostSystem
	client *vim25.Client
	cli    *esx.Executor
}

// New prepares access to a host. Its properties must have been read as [vcenter.Client.Hosts] does.
func New(client *vim25.Client, host mo.HostSystem) *Host {
	return &Host{HostSystem: host, client: client}
}

// Unusable says why nothing can be read of a host or changed on it; empty: it can.
func (h *Host) Unusable() string {
	switch {
	case h.Runtime.ConnectionState != types.HostSystemConnectionStateConnected:
		return fmt.Sprintf("the host is %s: reconnect it in vCenter", h.Runtime.ConnectionState)
	case h.Runtime.PowerState != types.HostSystemPowerStatePoweredOn:
		return fmt.Sprintf("the host is %s", h.Runtime.PowerState)
	case h.Config == nil:
		return "vCenter has no configuration of the host: the user may not read it, or the host has never been connected"
	}
	return ""
}

// esxcli runs a command of the host's esxcli. Options are written as --name=value.
func (h *Host) esxcli(ctx context.Context, command string, options ...string) ([]esx.Values, error) {
	response, err := h.execute(ctx, command, options)
	if err != nil {
		return nil, vcenter.Explain(fmt.Errorf("%s: esxcli %s: %w", h.Name, command, detailed(err)))
	}
	return response.Values, nil
}

func (h *Host) execute(ctx context.Context, command string, options []string) (*esx.Response, error) {
	if h.cli == nil {
		executor, err := esx.NewExecutor(ctx, h.client, h.Self)
		if err != nil {
			return nil, err
		}
		h.cli = executor
	}
	words := strings.Fields(command)
	// The library ends the program at an option that a host does not have.
	about, err := h.cli.CommandInfoMethod(ctx, esx.NewCommand(words))
	if err != nil {
		return nil, err
	}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		has := func(parameter esx.CommandInfoParam) bool { return slices.Contains(parameter.Aliases, name) }
		if !slices.ContainsFunc(about.Param, has) {
			return nil, fmt.Errorf("this version of ESXi has no option %s", name)
		}
		words = append(words, name+"="+escaped(value))
	}
	return h.cli.Run(ctx, words)
}

// escaped makes a value one that may stand in XML, which the library leaves to its caller.
func escaped(value string) string {
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(value)); err != nil {
		return value
	}
	return out.String()
}

// detailed adds what esxcli printed: its fault's message is only a key.
func detailed(err error) error {
	var fault *esx.Fault
	if !errors.As(err, &fault) {
		return err
	}
	var detail struct {
		Messages []string `xml:"fault>errMsg"`
	}
	if xml.Unmarshal([]byte(fault.Detail), &detail) == nil && len(detail.Messages) > 0 {
		return errors.New(strings.Join(detail.Messages, " "))
	}
	return fmt.Errorf("%s", strings.TrimSpace(fault.MessageDetail()))
}

func (h *Host) storage() *object.HostStorageSystem {
	return object.NewHostStorageSystem(h.client, *h.ConfigManager.StorageSystem)
}

func (h *Host) options() *object.OptionManager {
	return object.NewOptionManager(h.client, *h.ConfigManager.AdvancedOption)
}
