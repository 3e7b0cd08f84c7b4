package terraform

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

type hostFields struct {
	ID         types.String      `tfsdk:"id"`
	Name       types.String      `tfsdk:"name"`
	Initiators []string          `tfsdk:"initiators"`
	Nqns       []string          `tfsdk:"nqns"`
	Wwpns      []string          `tfsdk:"wwpns"`
	Labels     map[string]string `tfsdk:"labels"`
	Created    types.String      `tfsdk:"created"`
}

type hostModel struct {
	hostFields
	Chap   *chapModel   `tfsdk:"chap"`
	Mutual *chapModel   `tfsdk:"mutual_chap"`
	Dhchap *dhchapModel `tfsdk:"dhchap"`
}

// chapModel has a secret that Terraform does not keep: a change of its version sends it again.
type chapModel struct {
	User    types.String `tfsdk:"user"`
	Secret  types.String `tfsdk:"secret"`
	Version types.Int64  `tfsdk:"secret_version"`
}

// dhchapModel has the secrets of DH-HMAC-CHAP, which Terraform does not keep either.
type dhchapModel struct {
	Secret     types.String `tfsdk:"secret"`
	Controller types.String `tfsdk:"controller_secret"`
	Mutual     types.Bool   `tfsdk:"mutual"`
	Version    types.Int64  `tfsdk:"secret_version"`
}

var dhchapAttribute = schema.SingleNestedAttribute{Optional: true,
	MarkdownDescription: "DH-HMAC-CHAP secrets for NVMe/TCP, as `nvme gen-dhchap-key` makes them.", Attributes: map[string]schema.Attribute{
		"secret": schema.StringAttribute{Required: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "Secret of the host, which it must authenticate with. It is in no plan and no state."},
		"controller_secret": schema.StringAttribute{Optional: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "Secret of the array, with which it authenticates if the host asks; needed with `mutual`. It is in no plan and no state."},
		"mutual": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "The array has a secret, too. Default: false."},
		"secret_version": schema.Int64Attribute{Optional: true, MarkdownDescription: "A number to change when a secret has changed."},
	}}

func chapAttribute(description string) schema.Attribute {
	return schema.SingleNestedAttribute{Optional: true, MarkdownDescription: description, Attributes: map[string]schema.Attribute{
		"user": schema.StringAttribute{Required: true, MarkdownDescription: "CHAP user name."},
		"secret": schema.StringAttribute{Required: true, Sensitive: true, WriteOnly: true,
			MarkdownDescription: "CHAP secret, 12 to 255 bytes. It is in no plan and no state."},
		"secret_version": schema.Int64Attribute{Optional: true, MarkdownDescription: "A number to change when the secret has changed."},
	}}
}

var hostAttributes = map[string]schema.Attribute{
	"id":   idAttribute("Permanent identifier."),
	"name": nameAttribute,
	"initiators": schema.SetAttribute{Optional: true, ElementType: types.StringType,
		MarkdownDescription: "iSCSI initiator names, in lower case, 1 to 64.",
		Validators: []validator.Set{setvalidator.SizeBetween(1, 64),
			setvalidator.ValueStringsAre(lowerCase{}, stringvalidator.LengthBetween(1, 223))}},
	"nqns": schema.SetAttribute{Optional: true, ElementType: types.StringType,
		MarkdownDescription: "NVMe qualified names (NQNs) for NVMe/TCP, 1 to 64.",
		Validators:          []validator.Set{setvalidator.SizeBetween(1, 64), setvalidator.ValueStringsAre(stringvalidator.LengthBetween(1, 223))}},
	"wwpns": schema.SetAttribute{Optional: true, ElementType: types.StringType,
		MarkdownDescription: "N_Port names (WWPNs) for Fibre Channel, as pairs of hexadecimal digits in lower case with colons, 1 to 64.",
		Validators: []validator.Set{setvalidator.SizeBetween(1, 64), setvalidator.ValueStringsAre(stringvalidator.RegexMatches(
			regexp.MustCompile("^([0-9a-f]{2}:){7}[0-9a-f]{2}$"), "write it as the array does, such as 21:00:00:24:ff:31:4c:48"))}},
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
	description: "A host: the ports of one machine, to which volumes are connected.",
	attributes: with(hostAttributes, map[string]schema.Attribute{
		"chap":        chapAttribute("CHAP credentials of the host, which it must log in with."),
		"mutual_chap": chapAttribute("CHAP credentials of the array, with which it shows the host what it is."),
		"dhchap":      dhchapAttribute,
	}),
	create: func(ctx context.Context, api *array.API, plan, config *hostModel) error {
		nqns, wwpns := orEmpty(plan.Nqns), orEmpty(plan.Wwpns)
		wanted := array.NewHost{Name: plan.Name.ValueString(), Initiators: orEmpty(plan.Initiators), Nqns: &nqns, Wwpns: &wwpns}
		if plan.Chap != nil {
			wanted.Chap = plan.Chap.with(config.Chap)
		}
		if plan.Mutual != nil {
			wanted.Mutual = plan.Mutual.with(config.Mutual)
		}
		if plan.Dhchap != nil {
			wanted.DhchapSecret, wanted.DhchapControllerSecret = plan.Dhchap.with(config.Dhchap)
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
		change := array.HostChange{Name: given(plan.Name), Initiators: nullable.NewNullableWithValue(orEmpty(plan.Initiators)),
			Nqns: nullable.NewNullableWithValue(orEmpty(plan.Nqns)), Wwpns: nullable.NewNullableWithValue(orEmpty(plan.Wwpns)),
			Labels: array.Changes(state.Labels, plan.Labels)}
		if !plan.Chap.same(state.Chap) {
			change.Chap = plan.Chap.with(config.Chap)
		}
		if !plan.Mutual.same(state.Mutual) {
			change.Mutual = plan.Mutual.with(config.Mutual)
		}
		if !plan.Dhchap.same(state.Dhchap) {
			change.DhchapSecret, change.DhchapControllerSecret = plan.Dhchap.with(config.Dhchap)
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

// with returns the secrets of the configuration, which are in no plan; null for none.
func (m *dhchapModel) with(config *dhchapModel) (host, controller nullable.Nullable[string]) {
	host, controller = nullable.NewNullNullable[string](), nullable.NewNullNullable[string]()
	if m == nil || config == nil {
		return host, controller
	}
	if m.Mutual.ValueBool() {
		controller = nullable.NewNullableWithValue(config.Controller.ValueString())
	}
	return nullable.NewNullableWithValue(config.Secret.ValueString()), controller
}

func (m *dhchapModel) same(other *dhchapModel) bool {
	if m == nil || other == nil {
		return m == nil && other == nil
	}
	return m.Mutual.Equal(other.Mutual) && m.Version.Equal(other.Version)
}

// read takes from the array whether there are secrets. They are never in the state.
func (m *dhchapModel) read(found array.Host) *dhchapModel {
	if !found.Dhchap {
		return nil
	}
	read := &dhchapModel{Secret: types.StringNull(), Controller: types.StringNull(),
		Mutual: types.BoolValue(found.DhchapController), Version: types.Int64Null()}
	if m != nil {
		read.Version = m.Version
	}
	return read
}

// orEmpty returns an empty list for none, which the array takes for none as well.
func orEmpty(names []string) []string {
	return append([]string{}, names...)
}

// listed returns the names of the array; none as the configuration writes it, which is by leaving the argument out.
func listed(found []string) []string {
	if len(found) == 0 {
		return nil
	}
	return slices.Clone(found)
}

func (m *hostFields) set(found array.Host) {
	m.ID, m.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	m.Initiators, m.Nqns, m.Wwpns = listed(found.Initiators), listed(found.Nqns), listed(found.Wwpns)
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
	model.Dhchap = model.Dhchap.read(found)
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
