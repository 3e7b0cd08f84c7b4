package terraform

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"ashlar/integrations/array"
)

type groupModel struct {
	ID        types.String      `tfsdk:"id"`
	Name      types.String      `tfsdk:"name"`
	SoftQuota sizeValue         `tfsdk:"soft_quota"`
	HardQuota sizeValue         `tfsdk:"hard_quota"`
	Labels    map[string]string `tfsdk:"labels"`
	Limits    *limitsModel      `tfsdk:"limits"`
	Policy    *policyModel      `tfsdk:"policy"`
	Created   types.String      `tfsdk:"created"`
}

var groupAttributes = map[string]schema.Attribute{
	"id":         idAttribute("Permanent identifier."),
	"name":       nameAttribute,
	"soft_quota": sizeAttribute("Mapped bytes above which operators and hosts are warned."),
	"hard_quota": sizeAttribute("Mapped bytes above which writes that need new space fail."),
	"labels":     labelsAttribute,
	"limits":     limitsAttribute,
	"policy":     policyAttribute,
	"created":    kept("Time of creation."),
}

var groups = &noun[groupModel]{
	name:        "group",
	description: "A volume group: quotas, QoS limits and data reduction settings that its volumes share, and the unit of consistent snapshots.",
	attributes:  groupAttributes,
	create: func(ctx context.Context, api *array.API, plan, _ *groupModel) error {
		wanted := array.NewGroup{Name: plan.Name.ValueString(), Limits: plan.Limits.change(), Policy: plan.Policy.change(),
			SoftQuota: plan.SoftQuota.nullable(), HardQuota: plan.HardQuota.nullable()}
		if len(plan.Labels) > 0 {
			wanted.Labels = &plan.Labels
		}
		group, err := made(array.Made[array.Group](api.CreateGroup(ctx, wanted)))
		if err != nil {
			return err
		}
		return readGroup(ctx, api, plan, group.ID)
	},
	read: func(ctx context.Context, api *array.API, model *groupModel) error {
		return readGroup(ctx, api, model, model.ID.ValueString())
	},
	update: func(ctx context.Context, api *array.API, state, plan, _ *groupModel) error {
		change := array.GroupChange{Name: given(plan.Name), Limits: plan.Limits.change(), Policy: plan.Policy.change(),
			SoftQuota: plan.SoftQuota.nullable(), HardQuota: plan.HardQuota.nullable(), Labels: array.Changes(state.Labels, plan.Labels)}
		if err := array.Done(api.ChangeGroup(ctx, state.ID.ValueString(), change)); err != nil {
			return err
		}
		return readGroup(ctx, api, plan, state.ID.ValueString())
	},
	remove: func(ctx context.Context, api *array.API, state *groupModel) error {
		return array.Done(api.DeleteGroup(ctx, state.ID.ValueString()))
	},
}

var groupData = &source[groupModel]{
	name: "group", description: "A volume group of the array.", attributes: groupAttributes,
	read: func(ctx context.Context, api *array.API, model *groupModel) error {
		return readGroup(ctx, api, model, model.Name.ValueString())
	},
}

func readGroup(ctx context.Context, api *array.API, model *groupModel, key string) error {
	found, err := array.Decode[array.Group](api.ShowGroup(ctx, key))
	if err != nil {
		return err
	}
	model.ID, model.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	model.SoftQuota, model.HardQuota = sized(found.SoftQuota), sized(found.HardQuota)
	model.Labels = labelsOf(found.Labels, model.Labels)
	model.Limits, model.Policy = limits(found.Limits, model.Limits), policy(found.Policy, model.Policy)
	model.Created = stamp(found.Created)
	return nil
}
