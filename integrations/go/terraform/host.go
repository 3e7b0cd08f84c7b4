package terraform

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

type hostFields struct {
	ID         types.String      `tfsdk:"id"`
	Name       types.String      `tfsdk:"name"`
	Initiators []string          `tfsdk:"initiators"`
	Labels     map[string]string `tfsdk:"labels"`
	Created    types.String      `tfsdk:"created"`
}

type hostModel struct {
	hostFields
	Chap   *chapModel `tfsdk:"chap"`
	Mutual *chapModel `tfsdk:"mutual_chap"`
}

// chapModel has a secret that Terraform does not keep: a change of its version sends it again.
type chapModel struct {
	User    types.String `tfsdk:"user"`
	Secret  types.String `tfsdk:"secret"`
	Version types.Int64  `tfsdk:"secret_version"`
}

func chapAttribute(description string) schema.Attribute {
	return schema.SingleNestedAttribute{Optional: true, MarkdownDescription: description, Attributes: map[string]schema.Attribute{
		"user": schema.StringAttribute{Required: true, MarkdownDescription: "CHAP user name."},
		"secret": schema.StringAttribute{Required: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "CHAP secret, 12 to 255 characters. It is in no plan and no state."},
		"secret_version": schema.Int64Attribute{Optional: true, MarkdownDescription: "A number to change when the secret has changed."},
	}}
}

var hostAttributes = map[string]schema.Attribute{
	"id":   idAttribute("Permanent identifier."),
	"name": nameAttribute,
	"initiators": schema.SetAttribute{Required: true, ElementType: types.StringType,
		MarkdownDescription: "iSCSI initiator names, in lower case, 1 to 64.",
		Validators: []validator.Set{setvalidator.SizeBetween(1, 64),
			setvalidator.ValueStringsAre(lowerCase{}, stringvalidator.LengthBetween(1, 223))}},
	"labels":  labelsAttribute,
	"created": kept("Time of creation."),
}

// lowerCase refuses names that the array would write in another way.
type lowerCase struct{}

func (lowerCase) Description(context.Context) string         { return "in lower case" }
func (lowerCase) MarkdownDescription(context.Context) string { return "in lower case" }
func (lowerCase) ValidateString(_ context.Context, request validator.StringRequest, response *validator.StringResponse) {
	if name := request.ConfigValue.ValueString(); name != strings.ToLower(name) {
		response.Diagnostics.AddAttributeError(request.Path, "The initiator's name has capitals",
			"iSCSI names are compared in lower case (RFC 3722): write "+strings.ToLower(name))
	}
}

var hosts = &noun[hostModel]{
	name:        "host",
	description: "A host: the initiators of one machine, to which volumes are connected.",
	attributes: with(hostAttributes, map[string]schema.Attribute{
		"chap":        chapAttribute("CHAP credentials of the host, which it must log in with."),
		"mutual_chap": chapAttribute("CHAP credentials of the array, with which it shows the host what it is."),
	}),
	create: func(ctx context.Context, api *array.API, plan, config *hostModel) error {
		wanted := array.NewHost{Name: plan.Name.ValueString(), Initiators: plan.Initiators}
		if plan.Chap != nil {
			wanted.Chap = plan.Chap.with(config.Chap)
		}
		if plan.Mutual != nil {
			wanted.Mutual = plan.Mutual.with(config.Mutual)
		}
		if len(plan.Labels) > 0 {
			wanted.Labels = &plan.Labels
		}
		host, err := made(array.Made[array.Host](api.CreateHost(ctx, wanted)))
		if err != nil {
			return err
		}
		return readHost(ctx, api, plan, host.ID)
	},
	read: func(ctx context.Context, api *array.API, model *hostModel) error {
		return readHost(ctx, api, model, model.ID.ValueString())
	},
	update: func(ctx context.Context, api *array.API, state, plan, config *hostModel) error {
		change := array.HostChange{Name: given(plan.Name), Initiators: nullable.NewNullableWithValue(plan.Initiators),
			Labels: array.Changes(state.Labels, plan.Labels)}
		if !plan.Chap.same(state.Chap) {
			change.Chap = plan.Chap.with(config.Chap)
		}
		if !plan.Mutual.same(state.Mutual) {
			change.Mutual = plan.Mutual.with(config.Mutual)
		}
		if err := array.Done(api.ChangeHost(ctx, state.ID.ValueString(), change)); err != nil {
			return err
		}
		return readHost(ctx, api, plan, state.ID.ValueString())
	},
	remove: func(ctx context.Context, api *array.API, state *hostModel) error {
		return array.Done(api.DeleteHost(ctx, state.ID.ValueString()))
	},
}

var hostData = &source[hostFields]{
	name: "host", description: "A host of the array.", attributes: hostAttributes,
	read: func(ctx context.Context, api *array.API, model *hostFields) error {
		found, err := array.Decode[array.Host](api.ShowHost(ctx, model.Name.ValueString()))
		if err == nil {
			model.set(found)
		}
		return err
	},
}

// with returns the credentials with the secret of the configuration, which is in no plan; null for none.
func (m *chapModel) with(config *chapModel) nullable.Nullable[array.Chap] {
	if m == nil || config == nil {
		return nullable.NewNullNullable[array.Chap]()
	}
	return nullable.NewNullableWithValue(array.Chap{User: m.User.ValueString(), Secret: config.Secret.ValueString()})
}

func (m *chapModel) same(other *chapModel) bool {
	if m == nil || other == nil {
		return m == nil && other == nil
	}
	return m.User.Equal(other.User) && m.Version.Equal(other.Version)
}

func (m *hostFields) set(found array.Host) {
	m.ID, m.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	m.Initiators = slices.Clone(found.Initiators)
	m.Labels = labelsOf(found.Labels, m.Labels)
	m.Created = stamp(found.Created)
}

func readHost(ctx context.Context, api *array.API, model *hostModel, key string) error {
	found, err := array.Decode[array.Host](api.ShowHost(ctx, key))
	if err != nil {
		return err
	}
	model.set(found)
	model.Chap, model.Mutual = model.Chap.read(found.ChapUser), model.Mutual.read(found.MutualUser)
	return nil
}

// read takes the user from the array. The secret is never in the state.
func (m *chapModel) read(user nullable.Nullable[string]) *chapModel {
	name := text(user)
	if name.IsNull() {
		return nil
	}
	read := &chapModel{User: name, Secret: types.StringNull(), Version: types.Int64Null()}
	if m != nil {
		read.Version = m.Version
	}
	return read
}

type hostGroupModel struct {
	ID      types.String      `tfsdk:"id"`
	Name    types.String      `tfsdk:"name"`
	Hosts   []string          `tfsdk:"hosts"`
	Labels  map[string]string `tfsdk:"labels"`
	Created types.String      `tfsdk:"created"`
}

var hostGroupAttributes = map[string]schema.Attribute{
	"id":   idAttribute("Permanent identifier."),
	"name": nameAttribute,
	"hosts": schema.SetAttribute{Required: true, ElementType: types.StringType,
		MarkdownDescription: "Names of the hosts."},
	"labels":  labelsAttribute,
	"created": kept("Time of creation."),
}

var hostGroups = &noun[hostGroupModel]{
	name:        "host_group",
	description: "A host group: hosts that see the same volumes, such as those of a cluster.",
	attributes:  hostGroupAttributes,
	create: func(ctx context.Context, api *array.API, plan, _ *hostGroupModel) error {
		wanted := array.NewHostGroup{Name: plan.Name.ValueString(), Hosts: nullable.NewNullableWithValue(plan.Hosts)}
		if len(plan.Labels) > 0 {
			wanted.Labels = &plan.Labels
		}
		group, err := made(array.Made[array.HostGroup](api.CreateHostGroup(ctx, wanted)))
		if err != nil {
			return err
		}
		return readHostGroup(ctx, api, plan, group.ID)
	},
	read: func(ctx context.Context, api *array.API, model *hostGroupModel) error {
		return readHostGroup(ctx, api, model, model.ID.ValueString())
	},
	update: func(ctx context.Context, api *array.API, state, plan, _ *hostGroupModel) error {
		change := array.HostGroupChange{Name: given(plan.Name), Hosts: nullable.NewNullableWithValue(plan.Hosts), Labels: array.Changes(state.Labels, plan.Labels)}
		if err := array.Done(api.ChangeHostGroup(ctx, state.ID.ValueString(), change)); err != nil {
			return err
		}
		return readHostGroup(ctx, api, plan, state.ID.ValueString())
	},
	remove: func(ctx context.Context, api *array.API, state *hostGroupModel) error {
		return array.Done(api.DeleteHostGroup(ctx, state.ID.ValueString()))
	},
}

var hostGroupData = &source[hostGroupModel]{
	name: "host_group", description: "A host group of the array.", attributes: hostGroupAttributes,
	read: func(ctx context.Context, api *array.API, model *hostGroupModel) error {
		return readHostGroup(ctx, api, model, model.Name.ValueString())
	},
}

func readHostGroup(ctx context.Context, api *array.API, model *hostGroupModel, key string) error {
	found, err := array.Decode[array.HostGroup](api.ShowHostGroup(ctx, key))
	if err != nil {
		return err
	}
	model.ID, model.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	model.Hosts = append([]string{}, found.Hosts...)
	model.Labels = labelsOf(found.Labels, model.Labels)
	model.Created = stamp(found.Created)
	return nil
}
