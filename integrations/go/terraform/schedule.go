package terraform

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

type scheduleModel struct {
	ID        types.String `tfsdk:"id"`
	Name      types.String `tfsdk:"name"`
	Volume    types.String `tfsdk:"volume"`
	Group     types.String `tfsdk:"group"`
	Rules     []ruleModel  `tfsdk:"rules"`
	Immutable types.Int64  `tfsdk:"immutable_seconds"`
	Enabled   types.Bool   `tfsdk:"enabled"`
	Created   types.String `tfsdk:"created"`
}

type ruleModel struct {
	When types.String `tfsdk:"when"`
	Keep types.Int64  `tfsdk:"keep"`
}

var scheduleAttributes = map[string]schema.Attribute{
	"id":   idAttribute("Permanent identifier."),
	"name": nameAttribute,
	"volume": schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{replaced()},
		MarkdownDescription: "Volume to take snapshots of: id or name. Either this or `group`."},
	"group": schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{replaced()},
		MarkdownDescription: "Volume group to take consistent snapshots of: id or name."},
	"rules": schema.ListNestedAttribute{Required: true, MarkdownDescription: "Rules, 1 to 16.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"when": schema.StringAttribute{Required: true, MarkdownDescription: "`hourly`, `daily`, `weekly`, `monthly`, `yearly`, or a cron expression of five fields, in the time zone of the array."},
			"keep": schema.Int64Attribute{Required: true, MarkdownDescription: "Snapshots to retain; older ones are eradicated."},
		}}},
	"immutable_seconds": schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(0),
		MarkdownDescription: "Retention lock: seconds during which a snapshot can't be deleted."},
	"enabled": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		MarkdownDescription: "Whether the schedule is active."},
	"created": kept("Time of creation."),
}

var schedules = &noun[scheduleModel]{
	name:        "schedule",
	description: "A snapshot schedule of a volume or of a volume group. Its snapshots are not resources, and stay when it is destroyed.",
	attributes:  scheduleAttributes,
	create: func(ctx context.Context, api *array.API, plan, _ *scheduleModel) error {
		seconds := plan.Immutable.ValueInt64()
		wanted := array.NewSchedule{Name: plan.Name.ValueString(), Volume: given(plan.Volume), Group: given(plan.Group), Rules: plan.rules(),
			ImmutableSeconds: &seconds, Enabled: nullable.NewNullableWithValue(plan.Enabled.ValueBool())}
		schedule, err := array.Decode[array.Schedule](api.CreateSchedule(ctx, wanted))
		if err != nil {
			return err
		}
		return readSchedule(ctx, api, plan, schedule.ID)
	},
	read: func(ctx context.Context, api *array.API, model *scheduleModel) error {
		return readSchedule(ctx, api, model, model.ID.ValueString())
	},
	update: func(ctx context.Context, api *array.API, state, plan, _ *scheduleModel) error {
		change := array.ScheduleChange{Name: given(plan.Name), Rules: nullable.NewNullableWithValue(plan.rules()),
			ImmutableSeconds: asNumber(plan.Immutable), Enabled: nullable.NewNullableWithValue(plan.Enabled.ValueBool())}
		if err := array.Done(api.ChangeSchedule(ctx, state.ID.ValueString(), change)); err != nil {
			return err
		}
		return readSchedule(ctx, api, plan, state.ID.ValueString())
	},
	remove: func(ctx context.Context, api *array.API, state *scheduleModel) error {
		return array.Done(api.DeleteSchedule(ctx, state.ID.ValueString()))
	},
}

var scheduleData = &source[scheduleModel]{
	name: "schedule", description: "A snapshot schedule of the array.", attributes: scheduleAttributes,
	read: func(ctx context.Context, api *array.API, model *scheduleModel) error {
		return readSchedule(ctx, api, model, model.Name.ValueString())
	},
}

func (m *scheduleModel) rules() []array.Rule {
	var rules []array.Rule
	for _, rule := range m.Rules {
		rules = append(rules, array.Rule{When: rule.When.ValueString(), Keep: int32(rule.Keep.ValueInt64())})
	}
	return rules
}

func readSchedule(ctx context.Context, api *array.API, model *scheduleModel, key string) error {
	found, err := array.Decode[array.Schedule](api.ShowSchedule(ctx, key))
	if err != nil {
		return err
	}
	model.ID, model.Name = types.StringValue(found.ID), types.StringValue(found.Name)
	if model.Volume, err = named(ctx, model.Volume, found.Volume, func(key string) (string, error) {
		volume, err := array.Decode[array.Volume](api.ShowVolume(ctx, key))
		return volume.Name, err
	}); err != nil {
		return err
	}
	if model.Group, err = named(ctx, model.Group, found.Group, func(key string) (string, error) {
		group, err := array.Decode[array.Group](api.ShowGroup(ctx, key))
		return group.Name, err
	}); err != nil {
		return err
	}
	model.Rules = nil
	for _, rule := range found.Rules {
		model.Rules = append(model.Rules, ruleModel{types.StringValue(rule.When), types.Int64Value(int64(rule.Keep))})
	}
	model.Immutable = types.Int64Value(found.ImmutableSeconds)
	model.Enabled, model.Created = types.BoolValue(found.Enabled), stamp(found.Created)
	return nil
}

// named keeps how the configuration names an object that the array names by its name only.
func named(_ context.Context, before types.String, name nullable.Nullable[string], nameOf func(key string) (string, error)) (types.String, error) {
	now := text(name)
	if before.IsNull() || now.IsNull() || before.Equal(now) {
		return now, nil
	}
	same, err := nameOf(before.ValueString())
	if array.IsKind(err, array.NotFound) {
		return now, nil
	}
	if err == nil && same == now.ValueString() {
		return before, nil
	}
	return now, err
}
