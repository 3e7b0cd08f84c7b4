package terraform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

type snapshotFields struct {
	ID          types.String      `tfsdk:"id"`
	Name        types.String      `tfsdk:"name"`
	Volume      types.String      `tfsdk:"volume"`
	Writable    types.Bool        `tfsdk:"writable"`
	RetainUntil types.String      `tfsdk:"retain_until"`
	Labels      map[string]string `tfsdk:"labels"`
	Size        sizeValue         `tfsdk:"size"`
	NAA         types.String      `tfsdk:"naa"`
	Created     types.String      `tfsdk:"created"`
}

type snapshotModel struct {
	snapshotFields
	DeletionProtection types.Bool `tfsdk:"deletion_protection"`
	Eradicate          types.Bool `tfsdk:"eradicate"`
}

var snapshotAttributes = map[string]schema.Attribute{
	"id": idAttribute("Permanent identifier."),
	"name": schema.StringAttribute{Optional: true, Computed: true,
		MarkdownDescription: "Name, 1 to 189 letters, digits, `-`, `_` or `.`; default: the volume's name, a dot and the time. It can be changed.",
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
	"volume": schema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{replaced()},
		MarkdownDescription: "Volume to take a snapshot of: its id (better, as it does not change) or name. A change needs a new snapshot."},
	"writable": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
		MarkdownDescription: "Whether hosts can write to it."},
	"retain_until": schema.StringAttribute{Optional: true,
		MarkdownDescription: "Retention lock: it can't be deleted or changed before this time (RFC 3339, in UTC). It can only be made later."},
	"labels":  labelsAttribute,
	"size":    schema.StringAttribute{Computed: true, CustomType: sizeType{}, MarkdownDescription: "Size.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
	"naa":     kept("Identifier that hosts see (NAA, VPD page 83h)."),
	"created": kept("Time at which it was taken."),
}

var snapshots = &noun[snapshotModel]{
	name:        "volume_snapshot",
	description: "A snapshot of a volume, taken when the resource is created.",
	attributes: with(snapshotAttributes, map[string]schema.Attribute{
		"deletion_protection": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Terraform does not destroy it while this is `true`."},
		"eradicate": eradication,
	}),
	create: createSnapshot,
	read: func(ctx context.Context, api *array.API, model *snapshotModel) error {
		return readSnapshot(ctx, api, &model.snapshotFields, model.ID.ValueString())
	},
	update: updateSnapshot,
	remove: func(ctx context.Context, api *array.API, state *snapshotModel) error {
		if state.DeletionProtection.ValueBool() {
			return protected("snapshot", state.Name)
		}
		return array.Done(api.DeleteSnapshot(ctx, state.ID.ValueString(), &array.DeleteSnapshotParams{Eradicate: state.Eradicate.ValueBoolPointer()}))
	},
}

var snapshotData = &source[snapshotFields]{
	name: "volume_snapshot", description: "A snapshot of the array.", attributes: snapshotAttributes,
	read: func(ctx context.Context, api *array.API, model *snapshotFields) error {
		return readSnapshot(ctx, api, model, model.Name.ValueString())
	},
}

func until(value types.String) (nullable.Nullable[time.Time], error) {
	if value.IsNull() || value.IsUnknown() {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, value.ValueString())
	if err != nil {
		return nil, fmt.Errorf("retain_until is %q: write it as 2030-12-31T23:59:59Z", value.ValueString())
	}
	return nullable.NewNullableWithValue(at.UTC()), nil
}

func createSnapshot(ctx context.Context, api *array.API, plan, _ *snapshotModel) error {
	wanted := array.NewSnapshots{Volume: given(plan.Volume), Name: given(plan.Name)}
	var err error
	if wanted.RetainUntil, err = until(plan.RetainUntil); err != nil {
		return err
	}
	if len(plan.Labels) > 0 {
		wanted.Labels = &plan.Labels
	}
	list, err := made(array.Made[array.Snapshots](api.CreateSnapshots(ctx, wanted)))
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("the array returned %d snapshots for one", len(list.Items))
	}
	id := list.Items[0].ID
	if plan.Writable.ValueBool() {
		change := array.SnapshotChange{Writable: nullable.NewNullableWithValue(true)}
		if err := array.Done(api.ChangeSnapshot(ctx, id, change)); err != nil {
			return errors.Join(err, array.Done(api.DeleteSnapshot(ctx, id, nil)))
		}
	}
	return readSnapshot(ctx, api, &plan.snapshotFields, id)
}

func updateSnapshot(ctx context.Context, api *array.API, state, plan, _ *snapshotModel) error {
	id := state.ID.ValueString()
	var changes []array.SnapshotChange
	if plan.Name.ValueString() != state.Name.ValueString() {
		changes = append(changes, array.SnapshotChange{Name: given(plan.Name)})
	}
	if plan.Writable.ValueBool() != state.Writable.ValueBool() {
		changes = append(changes, array.SnapshotChange{Writable: nullable.NewNullableWithValue(plan.Writable.ValueBool())})
	}
	changes = append(changes, array.SnapshotChange{Labels: nullable.NewNullableWithValue(*array.Changes(state.Labels, plan.Labels))})
	if !plan.RetainUntil.Equal(state.RetainUntil) {
		end, err := until(plan.RetainUntil)
		if err != nil {
			return err
		}
		if end == nil {
			return fmt.Errorf("a retention lock can't be taken back: snapshot %s is locked until %s", state.Name.ValueString(), state.RetainUntil.ValueString())
		}
		changes = append(changes, array.SnapshotChange{RetainUntil: end})
	}
	for _, change := range changes {
		if err := array.Done(api.ChangeSnapshot(ctx, id, change)); err != nil {
			return err
		}
	}
	return readSnapshot(ctx, api, &plan.snapshotFields, id)
}

func readSnapshot(ctx context.Context, api *array.API, model *snapshotFields, key string) error {
	found, err := array.Decode[array.Snapshot](api.ShowSnapshot(ctx, key))
	if err != nil {
		return err
	}
	model.ID, model.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	// The volume may have been deleted since: its id stays.
	if name, err := found.Source.Get(); err == nil && model.Volume.ValueString() != found.SourceID {
		model.Volume = types.StringValue(name)
	} else {
		model.Volume = types.StringValue(found.SourceID)
	}
	model.Writable = types.BoolValue(found.Writable)
	model.RetainUntil = types.StringNull()
	if end, err := found.RetainUntil.Get(); err == nil {
		model.RetainUntil = stamp(end)
	}
	model.Labels = labelsOf(found.Labels, model.Labels)
	model.Size = ofBytes(found.Size)
	model.NAA, model.Created = types.StringValue(found.Naa), stamp(found.Created)
	return nil
}
