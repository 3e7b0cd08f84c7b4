// Package terraform is the Terraform provider: volumes, snapshots, schedules, hosts and connections of an array as resources
// and data sources.
package terraform

import (
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"ashlar/integrations/array"
)

type ashlarProvider struct{}

// New makes the provider.
func New() provider.Provider { return ashlarProvider{} }

type providerModel struct {
	URL         types.String `tfsdk:"url"`
	Token       types.String `tfsdk:"token"`
	Certificate types.String `tfsdk:"certificate"`
}

func (ashlarProvider) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName, response.Version = "ashlar", array.Version
}

func (ashlarProvider) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "Volumes, snapshots, schedules, hosts and connections of an Ashlar array.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Address of the array's API, such as `https://10.0.0.1:8080`. Default: the environment variable `ASHLAR_ARRAY`."},
			"token": schema.StringAttribute{Optional: true, Sensitive: true,
				MarkdownDescription: "API token of a user with the role operator, or admin to eradicate. Default: `ASHLAR_TOKEN`."},
			"certificate": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Certificates to trust, in PEM: the array's `tls.pem`. Default: the file that `ASHLAR_CERTIFICATE` names, or the authorities of the system."},
		},
	}
}

func (ashlarProvider) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var model providerModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	for name, value := range map[string]types.String{"url": model.URL, "token": model.Token, "certificate": model.Certificate} {
		if value.IsUnknown() {
			response.Diagnostics.AddAttributeError(path.Root(name), "The value is not known yet",
				"The provider needs it for planning: give a value that does not come from a resource of the same run.")
		}
	}
	if response.Diagnostics.HasError() {
		return
	}
	access := array.Access{
		URL: or(model.URL, "ASHLAR_ARRAY"), Token: or(model.Token, "ASHLAR_TOKEN"), CA: model.Certificate.ValueString(),
		Program: "terraform-provider-ashlar/" + array.Version,
	}
	if access.CA == "" {
		access.CAFile = os.Getenv("ASHLAR_CERTIFICATE")
	}
	api, err := array.Connect(access)
	if err == nil {
		_, err = api.Check(ctx)
	}
	if err != nil {
		response.Diagnostics.AddError("The array can't be used", err.Error())
		return
	}
	response.ResourceData, response.DataSourceData = api, api
}

func or(value types.String, variable string) string {
	if value.ValueString() != "" {
		return value.ValueString()
	}
	return os.Getenv(variable)
}

func (ashlarProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		volumes.resource, snapshots.resource, groups.resource, schedules.resource, hosts.resource, hostGroups.resource, connections.resource,
	}
}

func (ashlarProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		volumeData.source, snapshotData.source, groupData.source, scheduleData.source, hostData.source, hostGroupData.source, arrayData.source,
	}
}
