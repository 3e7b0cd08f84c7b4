// Package vsim is a vCenter for tests: govmomi's simulator with what an array needs of hosts and the simulator lacks, such as
// devices with paths, claim rules, iSCSI adapters and VMFS.
package vsim

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Names of the inventory.
const (
	Datacenter = "DC0"
	Cluster    = "DC0_C0"
	User       = "operator@vsphere.local"
	Password   = "secret-for-tests"
)

// Unit is a logical unit that an array shows to an initiator.
type Unit struct {
	// Name is the canonical one, beginning with `naa.`.
	Name  string
	Bytes int64
	// CopyOf names the unit whose content it was made from; empty: it is empty or unknown.
	CopyOf string
}

// VCenter is a simulated vCenter with one cluster.
type VCenter struct {
	Address, Thumbprint string
	Hosts               []*Host
	// Units returns what an array shows to an initiator; hosts ask when they rescan.
	Units func(initiator string) []Unit

	model *simulator.Model
	mu    sync.Mutex
	// volumes are the file systems by the canonical name of their device.
	volumes map[string]*volume
	// denied hosts refuse every change; broken methods fail, with the host they fail on.
	denied  map[string]bool
	broken  map[string]*breakage
	expired bool
	// calls counts methods.
	calls map[string]int
	ui    clientSessions
}

// quiet keeps the simulator's log of methods that it does not have out of the tests' output.
type quiet struct{}

func (quiet) Write(text []byte) (int, error) { return len(text), nil }

// Start starts a vCenter with a cluster of this many hosts and ends it with the test.
func Start(t testing.TB, hosts int) *VCenter {
	t.Helper()
	log.SetOutput(quiet{})
	model := simulator.VPX()
	model.Host, model.ClusterHost, model.Machine = 0, hosts, 2
	// Two vCenters of a test are not the same.
	model.ServiceContent.About.InstanceUuid = uuid.NewString()
	if err := model.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Remove)
	model.Service.TLS = new(tls.Config)
	made := new(VCenter)
	model.Service.HandleFunc(clonePath, made.cloneTicket)
	server := model.Service.NewServer()
	t.Cleanup(server.Close)
	sum := sha256.Sum256(server.Certificate().Raw)
	*made = VCenter{Address: server.URL.Host, Thumbprint: hex.EncodeToString(sum[:]), model: model,
		volumes: map[string]*volume{}, denied: map[string]bool{}, broken: map[string]*breakage{}, calls: map[string]int{}, ui: newClientSessions(),
		Units: func(string) []Unit { return nil }}
	t.Cleanup(made.close)
	if err := made.extend(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	manager := model.Map().Get(*model.ServiceContent.AuthorizationManager).(*simulator.AuthorizationManager)
	model.Map().Put(&authorization{AuthorizationManager: manager, v: made})
	model.Map().Handler = made.intercept
	return made
}

func (v *VCenter) extend(ctx context.Context, server *simulator.Server) error {
	client, err := govmomi.NewClient(ctx, server.URL, true)
	if err != nil {
		return err
	}
	for _, entity := range v.model.Map().All("HostSystem") {
		system := entity.(*simulator.HostSystem)
		host := newHost(v, system, len(v.Hosts))
		v.Hosts = append(v.Hosts, host)
		// The simulator makes its own executer at the first use, which is then replaced.
		if _, err := esx.NewExecutor(ctx, client.Client, system.Self); err != nil {
			return err
		}
		host.install(v.model.Map())
	}
	slices.SortFunc(v.Hosts, func(a, b *Host) int {
		if a.System.Name < b.System.Name {
			return -1
		}
		return 1
	})
	return client.Logout(ctx)
}

// intercept refuses what a test asks for, before the method runs.
func (v *VCenter) intercept(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls[method.Name]++
	if v.ui.ended(ctx.Session) && method.Name != "Logout" {
		return nil, &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &method.This, PrivilegeId: "System.View"}}
	}
	session := method.Name == "Login" || method.Name == "RetrieveServiceContent" || method.Name == "SessionIsActive"
	if v.expired && !session {
		return nil, &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &method.This, PrivilegeId: "System.View"}}
	}
	if v.expired && method.Name == "Login" {
		// What the cookie stands for is over, so that the log-in is a new one.
		v.expired, ctx.Session = false, nil
	}
	host := v.owner(method.This)
	if it := v.broken[method.Name]; it != nil && it.times != 0 && (it.host == "" || host != nil && host.System.Name == it.host) {
		it.times--
		return nil, &types.HostConfigFault{}
	}
	if store, is := v.model.Map().Get(method.This).(*simulator.Datastore); is && method.Name == "Rename_Task" {
		// It stands in for the datastore during this call: other code expects the simulator's type.
		v.model.Map().Put(&renamer{Datastore: store, v: v})
	}
	if task, is := v.model.Map().Get(method.This).(*simulator.Task); is && method.Name == "CancelTask" {
		v.model.Map().Put(&extensionTask{task, v})
	}
	if host != nil && v.denied[host.System.Name] && changes(method) {
		return nil, &types.NoPermission{Object: &host.System.Self, PrivilegeId: "Host.Config.Storage"}
	}
	return nil, nil
}

// extensionTask is a task of an extension. vCenter notes that it is to be cancelled, and the extension ends it; the
// simulator ends it itself. It stands in for the task during this call.
type extensionTask struct {
	*simulator.Task
	v *VCenter
}

func (t *extensionTask) CancelTask(ctx *simulator.Context, _ *types.CancelTask) soap.HasFault {
	t.v.model.Map().Put(t.Task)
	body := new(methods.CancelTaskBody)
	if !t.Info.Cancelable {
		body.Fault_ = simulator.Fault("the task can't be cancelled", new(types.NotSupported))
		return body
	}
	ctx.Update(t.Task, []types.PropertyChange{{Name: "info.cancelled", Val: true}})
	body.Res = new(types.CancelTaskResponse)
	return body
}

// owner returns the host that an object belongs to.
func (v *VCenter) owner(ref types.ManagedObjectReference) *Host {
	for _, host := range v.Hosts {
		if host.owns(ref) {
			return host
		}
	}
	return nil
}

// changes reports whether a method changes something of a host.
func changes(method *simulator.Method) bool {
	switch method.Name {
	case "UpdateOptions", "SetMultipathLunPolicy", "UpdateSoftwareInternetScsiEnabled", "AddInternetScsiSendTargets",
		"UpdateInternetScsiAuthenticationProperties", "UpdateInternetScsiAdvancedOptions", "RescanAllHba", "RescanVmfs",
		"CreateVmfsDatastore", "ExpandVmfsDatastore", "UnmountVmfsVolume", "MountVmfsVolume", "DetachScsiLun", "AttachScsiLun",
		"ResignatureUnresolvedVmfsVolume_Task":
		return true
	case "ExecuteSoap":
		return writes(fields(method.Body).method)
	}
	return false
}

// Deny makes a host refuse changes, as for a user without privileges on it.
func (v *VCenter) Deny(host string, deny bool) { v.locked(func() { v.denied[host] = deny }) }

// breakage is a method that fails on a host, or on all if it is empty, this many times; negative: always.
type breakage struct {
	host  string
	times int
}

// Break makes a method fail on a host, or on all if it is empty, until Mend.
func (v *VCenter) Break(method, host string) {
	v.locked(func() { v.broken[method] = &breakage{host, -1} })
}

// BreakOnce makes the next call of a method fail.
func (v *VCenter) BreakOnce(method, host string) {
	v.locked(func() { v.broken[method] = &breakage{host, 1} })
}

// Mend ends what Break began.
func (v *VCenter) Mend(method string) { v.locked(func() { delete(v.broken, method) }) }

// Expire ends every session until the next log-in.
func (v *VCenter) Expire() { v.locked(func() { v.expired = true }) }

// Calls returns how often a method was called.
func (v *VCenter) Calls(method string) (count int) {
	v.locked(func() { count = v.calls[method] })
	return count
}

func (v *VCenter) locked(do func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	do()
}

// Machines returns the names of the virtual machines.
func (v *VCenter) Machines() []*simulator.VirtualMachine {
	var found []*simulator.VirtualMachine
	for _, entity := range v.model.Map().All("VirtualMachine") {
		found = append(found, entity.(*simulator.VirtualMachine))
	}
	return found
}

// Tasks returns all tasks of vCenter.
func (v *VCenter) Tasks() []types.TaskInfo {
	var found []types.TaskInfo
	for _, ref := range v.model.Map().AllReference("Task") {
		found = append(found, ref.(*simulator.Task).Info)
	}
	return found
}

// Map is the simulator's registry of objects.
func (v *VCenter) Map() *simulator.Registry { return v.model.Map() }

func refused(text string) *soap.Fault {
	return simulator.Fault(text, &types.HostConfigFault{})
}

func invalid(property string) *soap.Fault {
	return simulator.Fault(fmt.Sprintf("A specified parameter was not correct: %s", property), &types.InvalidArgument{InvalidProperty: property})
}
