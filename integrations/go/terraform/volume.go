package terraform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

type volumeFields struct {
	ID        types.String      `tfsdk:"id"`
	Name      types.String      `tfsdk:"name"`
	Size      sizeValue         `tfsdk:"size"`
	BlockSize types.Int64       `tfsdk:"block_size"`
	Group     types.String      `tfsdk:"group"`
	ReadOnly  types.Bool        `tfsdk:"read_only"`
	Labels    map[string]string `tfsdk:"labels"`
	Limits    *limitsModel      `tfsdk:"limits"`
	Policy    *policyModel      `tfsdk:"policy"`
	NAA       types.String      `tfsdk:"naa"`
	Created   types.String      `tfsdk:"created"`
}

type volumeModel struct {
	volumeFields
	Source             types.String `tfsdk:"source"`
	AllowShrink        types.Bool   `tfsdk:"allow_shrink"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	Eradicate          types.Bool   `tfsdk:"eradicate"`
}

var volumeAttributes = map[string]schema.Attribute{
	"id":   idAttribute("Permanent identifier."),
	"name": nameAttribute,
	"size": schema.StringAttribute{Optional: true, Computed: true, CustomType: sizeType{},
		MarkdownDescription: "Size, such as `2TiB`, `500GiB` or `1TB`; a number without a unit is bytes. Needed unless there is a `source`, whose size is the default.",
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), sameSize{}}},
	"block_size": schema.Int64Attribute{Optional: true, Computed: true,
		MarkdownDescription: "Logical block length in bytes: 512 (default) or 4096. A change needs a new volume.",
		PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown(), int64planmodifier.RequiresReplaceIfConfigured()}},
	"group": schema.StringAttribute{Optional: true, MarkdownDescription: "Volume group: name or id."},
	"read_only": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
		MarkdownDescription: "Whether writes are refused."},
	"labels":  labelsAttribute,
	"limits":  limitsAttribute,
	"policy":  policyAttribute,
	"naa":     kept("Identifier that hosts see (NAA, VPD page 83h)."),
	"created": kept("Time of creation."),
}

const protection = "Terraform does not destroy it while this is `true`, the default: set it to `false` and apply first."

var eradication = schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
	MarkdownDescription: "Eradicate the data at once when it is destroyed; this needs a token of an admin. By default it goes to the recycle bin, from which it can be restored."}

var volumes = &noun[volumeModel]{
	name:        "volume",
	description: "A volume: empty, or a clone of a snapshot or volume.",
	attributes: with(volumeAttributes, map[string]schema.Attribute{
		"source": schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{replaced()},
			MarkdownDescription: "Snapshot or volume to clone: name or id. A change needs a new volume."},
		"allow_shrink": schema.BoolAttribute{Optional: true, MarkdownDescription: "Allow a smaller size, which destroys the data after the new end. Without it a smaller size is an error of the plan."},
		"deletion_protection": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: protection},
		"eradicate": eradication,
	}),
	create: createVolume,
	read: func(ctx context.Context, api *array.API, model *volumeModel) error {
		return readVolume(ctx, api, &model.volumeFields, model.ID.ValueString())
	},
	update: updateVolume,
	remove: func(ctx context.Context, api *array.API, state *volumeModel) error {
		if state.DeletionProtection.ValueBool() {
			return protected("volume", state.Name)
		}
		return array.Done(api.DeleteVolume(ctx, state.ID.ValueString(), &array.DeleteVolumeParams{Eradicate: state.Eradicate.ValueBoolPointer()}))
	},
	plan: planVolume,
}

var volumeData = &source[volumeFields]{
	name: "volume", description: "A volume of the array.", attributes: volumeAttributes,
	read: func(ctx context.Context, api *array.API, model *volumeFields) error {
		return readVolume(ctx, api, model, model.Name.ValueString())
	},
}

func protected(what string, name types.String) error {
	return fmt.Errorf("%s %s has deletion_protection: set it to false and apply, then destroy it", what, name.ValueString())
}

// planVolume refuses to shrink a volume, and to destroy a protected one, before anything is done.
func planVolume(ctx context.Context, request resource.ModifyPlanRequest, diagnostics *diag.Diagnostics) {
	if request.State.Raw.IsNull() {
		return
	}
	var before, after sizeValue
	var name types.String
	var guarded, shrink types.Bool
	diagnostics.Append(request.State.GetAttribute(ctx, path.Root("name"), &name)...)
	if request.Plan.Raw.IsNull() {
		diagnostics.Append(request.State.GetAttribute(ctx, path.Root("deletion_protection"), &guarded)...)
		if guarded.ValueBool() {
			diagnostics.AddError("The volume is protected", protected("volume", name).Error())
		}
		return
	}
	diagnostics.Append(request.State.GetAttribute(ctx, path.Root("size"), &before)...)
	diagnostics.Append(request.Plan.GetAttribute(ctx, path.Root("size"), &after)...)
	diagnostics.Append(request.Plan.GetAttribute(ctx, path.Root("allow_shrink"), &shrink)...)
	if !after.IsUnknown() && !after.IsNull() && after.bytes() < before.bytes() && !shrink.ValueBool() {
		diagnostics.AddAttributeError(path.Root("size"), "The volume would shrink", fmt.Sprintf(
			"Volume %s has %s, and %s would destroy the data after the new end: set allow_shrink = true if that is meant.",
			name.ValueString(), before.ValueString(), after.ValueString()))
	}
}

func createVolume(ctx context.Context, api *array.API, plan, _ *volumeModel) error {
	wanted := array.NewVolume{Name: plan.Name.ValueString(), Group: given(plan.Group), Source: given(plan.Source)}
	cloned := !plan.Source.IsNull()
	hasSize := !plan.Size.IsNull() && !plan.Size.IsUnknown()
	if hasSize && !cloned {
		wanted.Size = nullable.NewNullableWithValue(plan.Size.bytes())
	}
	if !plan.BlockSize.IsNull() && !plan.BlockSize.IsUnknown() && !cloned {
		wanted.BlockSize = nullable.NewNullableWithValue(int32(plan.BlockSize.ValueInt64()))
	}
	if len(plan.Labels) > 0 {
		wanted.Labels = &plan.Labels
	}
	volume, err := made(array.Made[array.Volume](api.CreateVolume(ctx, wanted)))
	if err != nil {
		return err
	}
	if err := finishVolume(ctx, api, volume, plan, hasSize && cloned); err != nil {
		// It is empty, or a clone: nothing is lost.
		undo := array.Done(api.DeleteVolume(ctx, volume.ID, nil))
		return errors.Join(err, undo)
	}
	return readVolume(ctx, api, &plan.volumeFields, volume.ID)
}

// finishVolume does what a creation does not.
func finishVolume(ctx context.Context, api *array.API, volume array.Volume, plan *volumeModel, grow bool) error {
	if grow && plan.Size.bytes() < volume.Size {
		return fmt.Errorf("a clone can't be smaller than its source, which has %s", ofBytes(volume.Size).ValueString())
	}
	var changes []array.VolumeChange
	if grow && plan.Size.bytes() > volume.Size {
		changes = append(changes, array.VolumeChange{Size: plan.Size.nullable()})
	}
	if plan.Limits != nil || plan.Policy != nil {
		changes = append(changes, array.VolumeChange{Limits: plan.Limits.change(), Policy: plan.Policy.change()})
	}
	if plan.ReadOnly.ValueBool() {
		changes = append(changes, array.VolumeChange{ReadOnly: nullable.NewNullableWithValue(true)})
	}
	return changeVolume(ctx, api, volume.ID, changes)
}

func changeVolume(ctx context.Context, api *array.API, id string, changes []array.VolumeChange) error {
	for _, change := range changes {
		if err := array.Done(api.ChangeVolume(ctx, id, change)); err != nil {
			return err
		}
	}
	return nil
}

func updateVolume(ctx context.Context, api *array.API, state, plan, _ *volumeModel) error {
	all := array.VolumeChange{
		Name: given(plan.Name), Group: asText(plan.Group), Limits: plan.Limits.change(), Policy: plan.Policy.change(),
		Labels: array.Changes(state.Labels, plan.Labels),
	}
	readOnly := []array.VolumeChange{{ReadOnly: nullable.NewNullableWithValue(plan.ReadOnly.ValueBool())}}
	changes := []array.VolumeChange{all}
	if !plan.Size.IsUnknown() && plan.Size.bytes() != state.Size.bytes() {
		changes = append(changes, array.VolumeChange{Size: plan.Size.nullable(), Shrink: plan.AllowShrink.ValueBoolPointer()})
	}
	// A read-only volume can't be resized.
	switch {
	case plan.ReadOnly.ValueBool() && !state.ReadOnly.ValueBool():
		changes = append(changes, readOnly...)
	case !plan.ReadOnly.ValueBool() && state.ReadOnly.ValueBool():
		changes = append(readOnly, changes...)
	}
	if err := changeVolume(ctx, api, state.ID.ValueString(), changes); err != nil {
		return err
	}
	return readVolume(ctx, api, &plan.volumeFields, state.ID.ValueString())
}

// readVolume sets the fields of a volume, found by its id or name.
func readVolume(ctx context.Context, api *array.API, model *volumeFields, key string) error {
	found, err := array.Decode[array.Volume](api.ShowVolume(ctx, key))
	if err != nil {
		return err
	}
	model.ID, model.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	model.Size = ofBytes(found.Size)
	model.BlockSize = types.Int64Value(int64(found.BlockSize))
	model.Group = referenced(model.Group, found.Group, found.GroupID)
	model.ReadOnly = types.BoolValue(found.ReadOnly)
	model.Labels = labelsOf(found.Labels, model.Labels)
	model.Limits, model.Policy = limits(found.Limits, model.Limits), policy(found.Policy, model.Policy)
	model.NAA, model.Created = types.StringValue(found.Naa), stamp(found.Created)
	return nil
}

func stamp(at time.Time) types.String { return types.StringValue(at.UTC().Format(time.RFC3339)) }
