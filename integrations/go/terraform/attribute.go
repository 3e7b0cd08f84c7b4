package terraform

import (
	"context"
	"fmt"

	lookup "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// Attributes that several resources have.

func idAttribute(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}}
}

func kept(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}}
}

var nameAttribute = schema.StringAttribute{Required: true,
	MarkdownDescription: "Name: 1 to 63 letters, digits, `-`, `_` or `.`, beginning with a letter or digit. It can be changed."}

var labelsAttribute = schema.MapAttribute{Optional: true, ElementType: types.StringType,
	MarkdownDescription: "Labels: keys of at most 63 characters, values of at most 255 bytes. Labels that are set elsewhere are removed."}

var limitsAttribute = schema.SingleNestedAttribute{Optional: true,
	MarkdownDescription: "QoS limits. What is left out is unlimited.",
	Attributes: map[string]schema.Attribute{
		"iops":            schema.Int64Attribute{Optional: true, MarkdownDescription: "Reads, writes and offloaded commands per second."},
		"iops_burst":      schema.Int64Attribute{Optional: true, MarkdownDescription: "Burst in commands."},
		"bandwidth":       sizeAttribute("Bytes per second, such as `500MiB`."),
		"bandwidth_burst": sizeAttribute("Burst in bytes."),
	}}

var policyAttribute = schema.SingleNestedAttribute{Optional: true,
	MarkdownDescription: "Data reduction of new writes. What is left out is inherited.",
	Attributes: map[string]schema.Attribute{
		"dedup":       schema.BoolAttribute{Optional: true, MarkdownDescription: "Deduplication."},
		"compression": schema.StringAttribute{Optional: true, MarkdownDescription: "Compression: `off`, `fast`, `high` or `adaptive`."},
		"verify":      schema.BoolAttribute{Optional: true, MarkdownDescription: "Byte-by-byte verification of duplicates."},
	}}

func sizeAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, CustomType: sizeType{}, MarkdownDescription: description, PlanModifiers: []planmodifier.String{sameSize{}}}
}

// replaced makes a change of an attribute a new object, unless the state has no value: that of an imported object may be
// unknown, and is taken from the configuration.
func replaced() planmodifier.String {
	return stringplanmodifier.RequiresReplaceIf(func(_ context.Context, request planmodifier.StringRequest, response *stringplanmodifier.RequiresReplaceIfFuncResponse) {
		response.RequiresReplace = !request.StateValue.IsNull()
	}, "A change needs a new object.", "A change needs a new object.")
}

// looked makes attributes of a resource into those of a data source: the name is given, everything else is read.
func looked(description string, attributes map[string]schema.Attribute) lookup.Schema {
	made := lookup.Schema{MarkdownDescription: description, Attributes: map[string]lookup.Attribute{}}
	for name, attribute := range attributes {
		if name == "name" {
			made.Attributes[name] = lookup.StringAttribute{Required: true, MarkdownDescription: "Name or id."}
		} else {
			made.Attributes[name] = readOnly(attribute)
		}
	}
	return made
}

func readOnly(attribute schema.Attribute) lookup.Attribute {
	description := attribute.GetMarkdownDescription()
	switch it := attribute.(type) {
	case schema.StringAttribute:
		return lookup.StringAttribute{Computed: true, CustomType: it.CustomType, MarkdownDescription: description}
	case schema.BoolAttribute:
		return lookup.BoolAttribute{Computed: true, MarkdownDescription: description}
	case schema.Int64Attribute:
		return lookup.Int64Attribute{Computed: true, MarkdownDescription: description}
	case schema.MapAttribute:
		return lookup.MapAttribute{Computed: true, ElementType: it.ElementType, MarkdownDescription: description}
	case schema.ListAttribute:
		return lookup.ListAttribute{Computed: true, ElementType: it.ElementType, MarkdownDescription: description}
	case schema.SetAttribute:
		return lookup.SetAttribute{Computed: true, ElementType: it.ElementType, MarkdownDescription: description}
	case schema.SingleNestedAttribute:
		return lookup.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: readOnlyAll(it.Attributes)}
	case schema.ListNestedAttribute:
		return lookup.ListNestedAttribute{Computed: true, MarkdownDescription: description,
			NestedObject: lookup.NestedAttributeObject{Attributes: readOnlyAll(it.NestedObject.Attributes)}}
	}
	panic(fmt.Sprintf("no data source has attributes of %T", attribute))
}

func readOnlyAll(attributes map[string]schema.Attribute) map[string]lookup.Attribute {
	made := map[string]lookup.Attribute{}
	for name, attribute := range attributes {
		made[name] = readOnly(attribute)
	}
	return made
}

// with returns attributes with further ones.
func with(attributes map[string]schema.Attribute, more map[string]schema.Attribute) map[string]schema.Attribute {
	made := map[string]schema.Attribute{}
	for name, attribute := range attributes {
		made[name] = attribute
	}
	for name, attribute := range more {
		made[name] = attribute
	}
	return made
}

type limitsModel struct {
	IOPS           types.Int64 `tfsdk:"iops"`
	IOPSBurst      types.Int64 `tfsdk:"iops_burst"`
	Bandwidth      sizeValue   `tfsdk:"bandwidth"`
	BandwidthBurst sizeValue   `tfsdk:"bandwidth_burst"`
}

// limits reads limits of the array. None at all is no block, unless there is one.
func limits(found array.Limits, before *limitsModel) *limitsModel {
	read := &limitsModel{
		IOPS: number(found.Iops), IOPSBurst: number(found.IopsBurst),
		Bandwidth: sized(found.Bandwidth), BandwidthBurst: sized(found.BandwidthBurst),
	}
	none := read.IOPS.IsNull() && read.IOPSBurst.IsNull() && read.Bandwidth.IsNull() && read.BandwidthBurst.IsNull()
	if none && before == nil {
		return nil
	}
	return read
}

// change returns the limits as a change: what is left out is unlimited.
func (m *limitsModel) change() *array.LimitsChange {
	if m == nil {
		m = &limitsModel{}
	}
	return &array.LimitsChange{
		Iops: asNumber(m.IOPS), IopsBurst: asNumber(m.IOPSBurst), Bandwidth: m.Bandwidth.nullable(), BandwidthBurst: m.BandwidthBurst.nullable(),
	}
}

type policyModel struct {
	Dedup       types.Bool   `tfsdk:"dedup"`
	Compression types.String `tfsdk:"compression"`
	Verify      types.Bool   `tfsdk:"verify"`
}

func policy(found array.Policy, before *policyModel) *policyModel {
	read := &policyModel{Dedup: boolean(found.Dedup), Verify: boolean(found.Verify)}
	if level, err := found.Compression.Get(); err == nil {
		read.Compression = types.StringValue(string(level))
	}
	if read.Dedup.IsNull() && read.Compression.IsNull() && read.Verify.IsNull() && before == nil {
		return nil
	}
	return read
}

func (m *policyModel) change() *array.PolicyChange {
	if m == nil {
		m = &policyModel{}
	}
	changed := &array.PolicyChange{Dedup: nullable.NewNullNullable[bool](), Verify: nullable.NewNullNullable[bool](), Compression: nullable.NewNullNullable[array.Compression]()}
	if !m.Dedup.IsNull() {
		changed.Dedup = nullable.NewNullableWithValue(m.Dedup.ValueBool())
	}
	if !m.Verify.IsNull() {
		changed.Verify = nullable.NewNullableWithValue(m.Verify.ValueBool())
	}
	if !m.Compression.IsNull() {
		changed.Compression = nullable.NewNullableWithValue(array.Compression(m.Compression.ValueString()))
	}
	return changed
}

// labelsOf reads labels. None are no map, unless there is one.
func labelsOf(found map[string]string, before map[string]string) map[string]string {
	if len(found) == 0 && before == nil {
		return nil
	}
	return found
}

func number(found nullable.Nullable[int64]) types.Int64 {
	if value, err := found.Get(); err == nil {
		return types.Int64Value(value)
	}
	return types.Int64Null()
}

func asNumber(value types.Int64) nullable.Nullable[int64] {
	if value.IsNull() {
		return nullable.NewNullNullable[int64]()
	}
	return nullable.NewNullableWithValue(value.ValueInt64())
}

func boolean(found nullable.Nullable[bool]) types.Bool {
	if value, err := found.Get(); err == nil {
		return types.BoolValue(value)
	}
	return types.BoolNull()
}

func text(found nullable.Nullable[string]) types.String {
	if value, err := found.Get(); err == nil {
		return types.StringValue(value)
	}
	return types.StringNull()
}

// asText returns null for nothing: it takes a setting back.
func asText(value types.String) nullable.Nullable[string] {
	if value.IsNull() {
		return nullable.NewNullNullable[string]()
	}
	return nullable.NewNullableWithValue(value.ValueString())
}

// given leaves out what is nothing.
func given(value types.String) nullable.Nullable[string] {
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	return nullable.NewNullableWithValue(value.ValueString())
}

// referenced keeps how the configuration names another object: by its id or by its name.
func referenced(before types.String, name, id nullable.Nullable[string]) types.String {
	if found, err := id.Get(); err == nil && before.ValueString() == found {
		return before
	}
	return text(name)
}
