package terraform

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"ashlar/integrations/array"
)

// noun is a kind of object of the array as a resource. M is its model: a struct with a field for each attribute.
type noun[M any] struct {
	// name after `ashlar_`.
	name, description string
	attributes        map[string]schema.Attribute
	// create makes the object and sets what is computed. It leaves nothing if it fails.
	create func(ctx context.Context, api *array.API, plan, config *M) error
	// read sets the model to what the array has, found by the model's id or, when importing, by a name.
	read func(ctx context.Context, api *array.API, model *M) error
	// update changes the object from state to plan; repeating it is harmless. nil if every change needs a new object.
	update func(ctx context.Context, api *array.API, state, plan, config *M) error
	// remove deletes the object.
	remove func(ctx context.Context, api *array.API, state *M) error
	// plan refuses plans that can't be carried out; may be nil.
	plan func(ctx context.Context, request resource.ModifyPlanRequest, diagnostics *diag.Diagnostics)
	// imported checks an id that a user gives; nil: it is the id or name of the object.
	imported func(id string) error
}

func (n *noun[M]) resource() resource.Resource { return &nounResource[M]{noun: n} }

type nounResource[M any] struct {
	noun *noun[M]
	api  *array.API
}

func (r *nounResource[M]) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + r.noun.name
}

func (r *nounResource[M]) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{MarkdownDescription: r.noun.description, Attributes: r.noun.attributes}
}

func (r *nounResource[M]) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	// Terraform validates without an array.
	if api, ok := request.ProviderData.(*array.API); ok {
		r.api = api
	}
}

func (r *nounResource[M]) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan, config M
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := r.noun.create(ctx, r.api, &plan, &config); err != nil {
		response.Diagnostics.AddError(r.failed("created"), err.Error())
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (r *nounResource[M]) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var state M
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := r.noun.read(ctx, r.api, &state)
	if array.IsKind(err, array.NotFound) {
		// Another client has deleted it: Terraform plans a new one.
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		response.Diagnostics.AddError(r.failed("read"), err.Error())
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &state)...)
}

func (r *nounResource[M]) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var state, plan, config M
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	if r.noun.update != nil {
		if err := r.noun.update(ctx, r.api, &state, &plan, &config); err != nil {
			response.Diagnostics.AddError(r.failed("changed"), err.Error())
			return
		}
	}
	response.Diagnostics.Append(response.State.Set(ctx, &plan)...)
}

func (r *nounResource[M]) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var state M
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := array.Unless(array.NotFound, r.noun.remove(ctx, r.api, &state)); err != nil {
		response.Diagnostics.AddError(r.failed("deleted"), err.Error())
	}
}

func (r *nounResource[M]) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if r.noun.plan != nil {
		r.noun.plan(ctx, request, &response.Diagnostics)
	}
}

func (r *nounResource[M]) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	if r.noun.imported != nil {
		if err := r.noun.imported(request.ID); err != nil {
			response.Diagnostics.AddError(r.failed("imported"), err.Error())
			return
		}
	}
	resource.ImportStatePassthroughID(ctx, path.Root("id"), request, response)
}

func (r *nounResource[M]) failed(verb string) string {
	return fmt.Sprintf("The %s was not %s", r.noun.name, verb)
}

// made refuses an object that was there before: Terraform would delete it some day.
func made[T any](object T, isNew bool, err error) (T, error) {
	if err == nil && !isNew {
		return object, fmt.Errorf("it exists already, with the same content: import it with `terraform import`, or choose another name")
	}
	return object, err
}

// source is a kind of object as a data source, found by its name or id.
type source[M any] struct {
	name, description string
	attributes        map[string]schema.Attribute
	read              func(ctx context.Context, api *array.API, model *M) error
}

func (s *source[M]) source() datasource.DataSource { return &nounSource[M]{of: s} }

type nounSource[M any] struct {
	of  *source[M]
	api *array.API
}

func (s *nounSource[M]) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + s.of.name
}

func (s *nounSource[M]) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = looked(s.of.description, s.of.attributes)
}

func (s *nounSource[M]) Configure(_ context.Context, request datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	if api, ok := request.ProviderData.(*array.API); ok {
		s.api = api
	}
}

func (s *nounSource[M]) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model M
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := s.of.read(ctx, s.api, &model); err != nil {
		response.Diagnostics.AddError(fmt.Sprintf("The %s was not read", s.of.name), err.Error())
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &model)...)
}
