package terraform

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"ashlar/integrations/array"
)

type arrayModel struct {
	ID      types.String `tfsdk:"id"`
	Title   types.String `tfsdk:"display_name"`
	Version types.String `tfsdk:"version"`
	Target  types.String `tfsdk:"target_iqn"`
	Portals []string     `tfsdk:"portals"`
	Total   types.Int64  `tfsdk:"total_bytes"`
	Free    types.Int64  `tfsdk:"free_bytes"`
}

var arrayData = &source[arrayModel]{
	name: "array", description: "The array itself.",
	attributes: map[string]schema.Attribute{
		"id":           schema.StringAttribute{Computed: true, MarkdownDescription: "Serial number."},
		"display_name": schema.StringAttribute{Computed: true, MarkdownDescription: "Name."},
		"version":      schema.StringAttribute{Computed: true, MarkdownDescription: "Software version."},
		"target_iqn":   schema.StringAttribute{Computed: true, MarkdownDescription: "iSCSI target name."},
		"portals":      schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "iSCSI portals: addresses with ports."},
		"total_bytes":  schema.Int64Attribute{Computed: true, MarkdownDescription: "Usable physical capacity."},
		"free_bytes":   schema.Int64Attribute{Computed: true, MarkdownDescription: "Free physical space, before data reduction."},
	},
	read: func(ctx context.Context, api *array.API, model *arrayModel) error {
		found, err := array.Decode[array.Array](api.ShowArray(ctx))
		if err != nil {
			return err
		}
		model.ID, model.Title, model.Version = types.StringValue(found.Serial), types.StringValue(found.Name), types.StringValue(found.Version)
		model.Target, model.Portals = types.StringValue(found.TargetIqn), found.Portals
		model.Total, model.Free = types.Int64Value(found.Space.Total), types.Int64Value(found.Space.Free)
		return nil
	},
}
