package terraform

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

type connectionModel struct {
	ID        types.String `tfsdk:"id"`
	Volume    types.String `tfsdk:"volume"`
	Host      types.String `tfsdk:"host"`
	HostGroup types.String `tfsdk:"host_group"`
	LUN       types.Int64  `tfsdk:"lun"`
	ReadOnly  types.Bool   `tfsdk:"read_only"`
	NAA       types.String `tfsdk:"naa"`
	Target    types.String `tfsdk:"target_iqn"`
	Portals   types.List   `tfsdk:"portals"`
}

// ofGroup stands in the id of a connection before a host group, as in the path of the API.
const ofGroup = "host-groups"

var connections = &noun[connectionModel]{
	name:        "connection",
	description: "A connection of a volume or snapshot to a host or host group. Every change makes a new connection, so that hosts lose the old one: name objects by their `id`, which does not change.",
	attributes: map[string]schema.Attribute{
		"id": idAttribute("Identifiers of volume and host, `VOLUME/HOST` or `VOLUME/host-groups/GROUP`; for importing also names."),
		"volume": schema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{replaced()},
			MarkdownDescription: "Volume or snapshot: id or name."},
		"host": schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{replaced()},
			MarkdownDescription: "Host: id or name. Either this or `host_group`."},
		"host_group": schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{replaced()},
			MarkdownDescription: "Host group: id or name."},
		"lun": schema.Int64Attribute{Optional: true, Computed: true,
			MarkdownDescription: "Logical unit number, 0 to 16383; default: the lowest free one from 1.",
			PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown(), int64planmodifier.RequiresReplaceIfConfigured()}},
		"read_only": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Refuse writes. Always `true` for a snapshot that is not writable.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.RequiresReplace()}},
		"naa":        kept("Identifier that hosts see (NAA, VPD page 83h)."),
		"target_iqn": kept("iSCSI name of the array."),
		"portals":    schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Addresses and ports of the array."},
	},
	create: func(ctx context.Context, api *array.API, plan, _ *connectionModel) error {
		readOnly := plan.ReadOnly.ValueBool()
		wanted := array.NewConnection{Volume: plan.Volume.ValueString(), Host: given(plan.Host), HostGroup: given(plan.HostGroup), ReadOnly: &readOnly}
		if plan.LUN.IsNull() || plan.LUN.IsUnknown() {
			wanted.MinLun = nullable.NewNullableWithValue[int32](1)
		} else {
			wanted.Lun = nullable.NewNullableWithValue(int32(plan.LUN.ValueInt64()))
		}
		attached, err := made(array.Made[array.Attachment](api.CreateConnection(ctx, wanted)))
		if err == nil {
			plan.set(attached)
		}
		return err
	},
	read: func(ctx context.Context, api *array.API, model *connectionModel) error {
		attached, err := showConnection(ctx, api, model.ID.ValueString())
		if err == nil {
			model.set(attached)
		}
		return err
	},
	remove: func(ctx context.Context, api *array.API, state *connectionModel) error {
		volume, to, group, err := connectionID(state.ID.ValueString())
		if err != nil {
			return err
		}
		if group {
			return array.Done(api.DeleteHostGroupConnection(ctx, volume, to))
		}
		return array.Done(api.DeleteConnection(ctx, volume, to))
	},
	imported: func(id string) error {
		_, _, _, err := connectionID(id)
		return err
	},
}

// connectionID takes an id apart.
func connectionID(id string) (volume, to string, group bool, err error) {
	parts := strings.Split(id, "/")
	switch {
	case len(parts) == 2 && parts[0] != "" && parts[1] != "":
		return parts[0], parts[1], false, nil
	case len(parts) == 3 && parts[1] == ofGroup && parts[0] != "" && parts[2] != "":
		return parts[0], parts[2], true, nil
	}
	return "", "", false, fmt.Errorf("%q is no connection: write VOLUME/HOST or VOLUME/%s/HOST-GROUP", id, ofGroup)
}

func showConnection(ctx context.Context, api *array.API, id string) (array.Attachment, error) {
	volume, to, group, err := connectionID(id)
	if err != nil {
		return array.Attachment{}, err
	}
	if group {
		return array.Decode[array.Attachment](api.ShowHostGroupConnection(ctx, volume, to))
	}
	return array.Decode[array.Attachment](api.ShowConnection(ctx, volume, to))
}

func (m *connectionModel) set(found array.Attachment) {
	m.Volume = referenced(m.Volume, nullable.NewNullableWithValue(found.Volume), nullable.NewNullableWithValue(found.VolumeID))
	m.Host = referenced(m.Host, found.Host, found.HostID)
	m.HostGroup = referenced(m.HostGroup, found.HostGroup, found.HostGroupID)
	to, err := found.HostID.Get()
	if group, none := found.HostGroupID.Get(); err != nil && none == nil {
		to = ofGroup + "/" + group
	}
	m.ID = types.StringValue(found.VolumeID + "/" + to)
	m.LUN = types.Int64Value(int64(found.Lun))
	m.ReadOnly = types.BoolValue(found.ReadOnly)
	m.NAA, m.Target = types.StringValue(found.Naa), types.StringValue(found.TargetIqn)
	var portals []attr.Value
	for _, portal := range found.Portals {
		portals = append(portals, types.StringValue(net.JoinHostPort(portal.Address, strconv.Itoa(int(portal.Port)))))
	}
	m.Portals = types.ListValueMust(types.StringType, portals)
}
