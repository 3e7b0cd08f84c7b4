package terraform

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/size"
)

// sizeType is a string such as `2TiB`. Strings that mean the same number of bytes are equal, so that `2048GiB` makes no
// plan, and one that means nothing is an error of the plan.
type sizeType struct{ basetypes.StringType }

func (sizeType) String() string { return "size" }

func (t sizeType) Equal(other attr.Type) bool {
	_, same := other.(sizeType)
	return same
}

func (sizeType) ValueFromString(_ context.Context, value basetypes.StringValue) (basetypes.StringValuable, diag.Diagnostics) {
	return sizeValue{value}, nil
}

func (t sizeType) ValueFromTerraform(ctx context.Context, value tftypes.Value) (attr.Value, error) {
	read, err := t.StringType.ValueFromTerraform(ctx, value)
	if err != nil {
		return nil, err
	}
	text, ok := read.(basetypes.StringValue)
	if !ok {
		return nil, fmt.Errorf("a size is a string, not %T", read)
	}
	return sizeValue{text}, nil
}

func (sizeType) ValueType(context.Context) attr.Value { return sizeValue{} }

type sizeValue struct{ basetypes.StringValue }

func (sizeValue) Type(context.Context) attr.Type { return sizeType{} }

func (v sizeValue) Equal(other attr.Value) bool {
	size, same := other.(sizeValue)
	return same && v.StringValue.Equal(size.StringValue)
}

// StringSemanticEquals compares bytes.
func (v sizeValue) StringSemanticEquals(_ context.Context, other basetypes.StringValuable) (bool, diag.Diagnostics) {
	size, same := other.(sizeValue)
	return same && !v.IsNull() && !size.IsNull() && v.bytes() == size.bytes(), nil
}

// sameSize keeps what the state says if the configuration means the same, so that there is nothing to change.
type sameSize struct{}

func (sameSize) Description(context.Context) string { return "the same number of bytes is no change" }
func (sameSize) MarkdownDescription(context.Context) string {
	return "the same number of bytes is no change"
}
func (sameSize) PlanModifyString(_ context.Context, request planmodifier.StringRequest, response *planmodifier.StringResponse) {
	state, plan := sizeValue{request.StateValue}, sizeValue{request.PlanValue}
	if !state.IsNull() && !plan.IsNull() && !plan.IsUnknown() && state.bytes() == plan.bytes() {
		response.PlanValue = request.StateValue
	}
}

// ValidateAttribute refuses a text that is not a size.
func (v sizeValue) ValidateAttribute(_ context.Context, request xattr.ValidateAttributeRequest, response *xattr.ValidateAttributeResponse) {
	if v.IsNull() || v.IsUnknown() {
		return
	}
	if _, err := size.Parse(v.ValueString()); err != nil {
		response.Diagnostics.AddAttributeError(request.Path, "This is not a size", err.Error())
	}
}

// bytes of a size that was validated.
func (v sizeValue) bytes() int64 {
	bytes, err := size.Parse(v.ValueString())
	if err != nil {
		return 0
	}
	return bytes
}

// nullable is null for no size: it takes a setting back.
func (v sizeValue) nullable() nullable.Nullable[int64] {
	if v.IsNull() {
		return nullable.NewNullNullable[int64]()
	}
	return nullable.NewNullableWithValue(v.bytes())
}

func ofBytes(bytes int64) sizeValue { return sizeValue{basetypes.NewStringValue(size.Format(bytes))} }

func sized(found nullable.Nullable[int64]) sizeValue {
	if bytes, err := found.Get(); err == nil {
		return ofBytes(bytes)
	}
	return sizeValue{basetypes.NewStringNull()}
}
