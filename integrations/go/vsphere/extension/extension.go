// Package extension makes an array known to a vCenter: the extension with its events, the alarms on datastores, and a role
// with the privileges that this program needs.
package extension

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/alarm"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/pin"
	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/vcenter"
)

// Company in the extension.
const company = "Ashlar"

// Plugin is the server of the plug-in for the vSphere Client.
type Plugin struct {
	// URL of its manifest.
	URL string
	// Certificate is the one that it shows, in PEM; vCenter accepts no other.
	Certificate []byte
	// AdminEmail are addresses of those who administrate the server; none: those that are registered stay.
	AdminEmail []string
}

// Register adds the extension and the alarms, or brings them up to date. Without a plug-in, one that is registered stays.
func Register(ctx context.Context, client *vcenter.Client, plugin *Plugin) error {
	manager, err := object.GetExtensionManager(client.Client.Client)
	if err != nil {
		return vcenter.Explain(err)
	}
	made := extension()
	found, err := manager.Find(ctx, catalogue.Key)
	if err != nil {
		return vcenter.Explain(err)
	}
	if plugin != nil {
		if err := plugin.describe(&made, found); err != nil {
			return err
		}
	} else if found != nil {
		made.Client, made.Server = found.Client, found.Server
	}
	if found == nil {
		err = manager.Register(ctx, made)
	} else {
		err = manager.Update(ctx, made)
	}
	if err != nil {
		return vcenter.Explain(fmt.Errorf("extension %s: %w", catalogue.Key, err))
	}
	if err := EnsureAlarms(ctx, client); err != nil {
		if found != nil {
			return err
		}
		// A first registration is whole, or not at all.
		return errors.Join(err, Unregister(ctx, client))
	}
	return nil
}

// Privileges that the extension defines, to be given to users of the plug-in.
const (
	// PrivilegeView is to see an array's side of an object.
	PrivilegeView = "Ashlar.View"
	// PrivilegeManage is to change it.
	PrivilegeManage = "Ashlar.Manage"
	privilegeGroup  = "Ashlar"
)

// noEmail is registered until an administrator gives an address: vCenter requires one.
const noEmail = "root@localhost"

// emails are the addresses of administrators, of which vCenter requires one.
func (p *Plugin) emails(before *types.Extension) ([]string, error) {
	for _, it := range p.AdminEmail {
		if read, err := mail.ParseAddress(it); err != nil || read.Address != it {
			return nil, fmt.Errorf("%q is no e-mail address: write it as storage@example.com", it)
		}
	}
	switch {
	case len(p.AdminEmail) > 0:
		return p.AdminEmail, nil
	case before != nil && len(before.Server) > 0 && len(before.Server[0].AdminEmail) > 0:
		return before.Server[0].AdminEmail, nil
	}
	return []string{noEmail}, nil
}

// describe adds the plug-in to an extension.
func (p *Plugin) describe(made, before *types.Extension) error {
	emails, err := p.emails(before)
	if err != nil {
		return err
	}
	if address, err := url.Parse(p.URL); err != nil || address.Scheme != "https" || address.Host == "" {
		return fmt.Errorf("%q is no address of a plug-in's server: write it as https://HOST:PORT/plugin.json", p.URL)
	}
	block, _ := pem.Decode(p.Certificate)
	if block == nil || block.Type != "CERTIFICATE" {
		return errors.New("the file has no certificate in PEM: give that of `ashlar-vsphere serve`")
	}
	sum := sha256.Sum256(block.Bytes)
	about := &types.Description{Label: "Ashlar", Summary: "Arrays, volumes of datastores, and settings of hosts"}
	made.Client = []types.ExtensionClientInfo{{Version: made.Version, Description: about, Company: company, Type: "vsphere-client-remote", Url: p.URL}}
	made.Server = []types.ExtensionServerInfo{{Url: p.URL, Description: about, Company: company, Type: "MANIFEST_SERVER",
		AdminEmail: emails, ServerThumbprint: pin.Colons(sum[:])}}
	return nil
}

// Unregister removes alarms and extension. What is not there need not be removed.
func Unregister(ctx context.Context, client *vcenter.Client) error {
	ours, err := alarms(ctx, client)
	if err != nil {
		return err
	}
	var failures []error
	for _, it := range ours {
		_, err := methods.RemoveAlarm(ctx, client.Client.Client, &types.RemoveAlarm{This: it.Self})
		failures = append(failures, vcenter.Explain(err))
	}
	manager, err := object.GetExtensionManager(client.Client.Client)
	if err != nil {
		return vcenter.Explain(err)
	}
	if err := manager.Unregister(ctx, catalogue.Key); err != nil && !vcenter.IsMissing(err) {
		failures = append(failures, vcenter.Explain(err))
	}
	return errors.Join(failures...)
}

// extension describes events so that vCenter shows them with titles.
func extension() types.Extension {
	made := types.Extension{
		Key: catalogue.Key, Company: company, Version: array.Version,
		Description:       &types.Description{Label: "Ashlar all-flash array", Summary: "Datastores, settings of hosts, events and alarms"},
		LastHeartbeatTime: time.Now(),
	}
	var texts []types.KeyValue
	for _, category := range catalogue.Categories {
		for _, severity := range append([]array.Severity{""}, catalogue.Severities...) {
			id := catalogue.Event(category.Category, severity)
			made.EventList = append(made.EventList, types.ExtensionEventTypeInfo{EventID: id, EventTypeSchema: schema(id, severity)})
			name := "cleared"
			if severity != "" {
				name = string(severity)
			}
			texts = append(texts,
				types.KeyValue{Key: id + ".category", Value: vsphereSeverity(severity)},
				types.KeyValue{Key: id + ".description", Value: category.Title + " (" + name + ")"},
				types.KeyValue{Key: id + ".fullFormat", Value: "{message}"},
				types.KeyValue{Key: id + ".formatOnDatastore", Value: "{message}"})
		}
	}
	var tasks []types.KeyValue
	for id, label := range datastore.Tasks {
		made.TaskList = append(made.TaskList, types.ExtensionTaskTypeInfo{TaskID: id})
		tasks = append(tasks, types.KeyValue{Key: id + ".label", Value: label}, types.KeyValue{Key: id + ".summary", Value: label})
	}
	for id := range privilegeTexts {
		made.PrivilegeList = append(made.PrivilegeList, types.ExtensionPrivilegeInfo{PrivID: id, PrivGroupName: privilegeGroup})
	}
	made.ResourceList = []types.ExtensionResourceInfo{{Locale: "en", Module: "event", Data: texts}, {Locale: "en", Module: "task", Data: tasks},
		{Locale: "en", Module: "auth", Data: privilegeResources()}}
	return made
}

var privilegeTexts = map[string][2]string{
	PrivilegeView:   {"View", "See the array's side of an object: volume, performance, snapshots, settings of hosts"},
	PrivilegeManage: {"Manage", "Create and grow datastores, take, restore and delete snapshots, set limits and schedules, change settings of hosts"},
}

func privilegeResources() []types.KeyValue {
	made := []types.KeyValue{{Key: "privilege." + privilegeGroup + ".label", Value: "Ashlar"}, {Key: "privilege." + privilegeGroup + ".summary", Value: "Ashlar arrays"}}
	for id, text := range privilegeTexts {
		made = append(made, types.KeyValue{Key: "privilege." + id + ".label", Value: text[0]}, types.KeyValue{Key: "privilege." + id + ".summary", Value: text[1]})
	}
	return made
}

func schema(id string, severity array.Severity) string {
	return "<EventType><eventTypeID>" + id + "</eventTypeID><description>" + id + "</description><arguments><argument><name>message</name>" +
		"<type>string</type></argument></arguments><severity>" + vsphereSeverity(severity) + "</severity></EventType>"
}

// vsphereSeverity is the severity of an event as vSphere names it.
func vsphereSeverity(severity array.Severity) string {
	switch severity {
	case array.SeverityCritical:
		return "error"
	case array.SeverityWarning:
		return "warning"
	}
	return "info"
}

// Status is the colour of the alarm for a severity. A quota is a limit that the administrator set, so that crossing even
// the soft one is red.
func Status(category catalogue.Category, severity array.Severity) types.ManagedEntityStatus {
	switch {
	case severity == array.SeverityCritical, severity == array.SeverityWarning && category == catalogue.Quota:
		return types.ManagedEntityStatusRed
	case severity == array.SeverityWarning:
		return types.ManagedEntityStatusYellow
	}
	return types.ManagedEntityStatusGreen
}

// alarms returns those that this program made.
func alarms(ctx context.Context, client *vcenter.Client) ([]mo.Alarm, error) {
	manager, err := alarm.GetManager(client.Client.Client)
	if err != nil {
		return nil, vcenter.Explain(err)
	}
	all, err := manager.GetAlarm(ctx, nil)
	if err != nil {
		return nil, vcenter.Explain(err)
	}
	return slices.DeleteFunc(all, func(it mo.Alarm) bool {
		_, is := AlarmCategory(it)
		return !is
	}), nil
}

// AlarmCategory returns the category of an alarm of this program.
func AlarmCategory(it mo.Alarm) (catalogue.Category, bool) {
	expression, is := it.Info.Expression.(*types.OrAlarmExpression)
	if !is || len(expression.Expression) == 0 {
		return "", false
	}
	event, is := expression.Expression[0].(*types.EventAlarmExpression)
	if !is {
		return "", false
	}
	rest, is := strings.CutPrefix(event.EventTypeId, catalogue.Key+".")
	category, _, _ := strings.Cut(rest, ".")
	return catalogue.Category(category), is
}

// EnsureAlarms creates the alarms on datastores that are missing, at the root of the inventory.
func EnsureAlarms(ctx context.Context, client *vcenter.Client) error {
	manager, err := alarm.GetManager(client.Client.Client)
	if err != nil {
		return vcenter.Explain(err)
	}
	found, err := alarms(ctx, client)
	if err != nil {
		return err
	}
	has := map[catalogue.Category]bool{}
	for _, it := range found {
		category, _ := AlarmCategory(it)
		has[category] = true
	}
	for _, category := range catalogue.Categories {
		if has[category.Category] {
			continue
		}
		if _, err := manager.CreateAlarm(ctx, client.ServiceContent.RootFolder, spec(category.Category, category.Title)); err != nil {
			return vcenter.Explain(fmt.Errorf("alarm %q: %w", category.Title, err))
		}
	}
	return nil
}

func spec(category catalogue.Category, title string) *types.AlarmSpec {
	expression := &types.OrAlarmExpression{}
	for _, severity := range append(slices.Clone(catalogue.Severities), "") {
		expression.Expression = append(expression.Expression, &types.EventAlarmExpression{
			EventType: "EventEx", EventTypeId: catalogue.Event(category, severity), ObjectType: "Datastore",
			Status: Status(category, severity),
		})
	}
	return &types.AlarmSpec{Name: title, Description: "Alerts of the array, passed on by ashlar-vsphere watch", Enabled: true,
		Expression: expression, Setting: &types.AlarmSetting{}}
}

// RoleName of the role.
const RoleName = "Ashlar array"

// Privileges are all that this program uses.
var Privileges = []string{
	"Alarm.Create", "Alarm.Delete", "Alarm.Edit",
	"Datastore.Browse", "Datastore.Delete", "Datastore.Rename",
	"Extension.Register", "Extension.Unregister", "Extension.Update",
	"Global.LogEvent",
	"Host.Config.AdvancedConfig", "Host.Config.Storage",
	"Sessions.ValidateSession",
	"StorageViews.View",
	"Task.Create", "Task.Update",
}

// EnsureRole creates the role, or gives it exactly the privileges, and grants it to a user at the root if one is named.
func EnsureRole(ctx context.Context, client *vcenter.Client, user string) error {
	manager := object.NewAuthorizationManager(client.Client.Client)
	roles, err := manager.RoleList(ctx)
	if err != nil {
		return vcenter.Explain(err)
	}
	var id int32
	if known := roles.ByName(RoleName); known != nil {
		id = known.RoleId
		err = manager.UpdateRole(ctx, id, RoleName, Privileges)
	} else {
		id, err = manager.AddRole(ctx, RoleName, Privileges)
	}
	if err != nil {
		return vcenter.Explain(fmt.Errorf("role %q: %w", RoleName, err))
	}
	if user == "" {
		return nil
	}
	err = manager.SetEntityPermissions(ctx, client.ServiceContent.RootFolder, []types.Permission{{Principal: user, RoleId: id, Propagate: true}})
	if err != nil {
		return vcenter.Explain(fmt.Errorf("permission of %s: %w", user, err))
	}
	return nil
}
