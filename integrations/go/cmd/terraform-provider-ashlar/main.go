// Command terraform-provider-ashlar is the Terraform provider of an array.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"ashlar/integrations/terraform"
)

// address is what the provider is called in configurations that use a local build of it.
const address = "ashlar.local/ashlar/ashlar"

func main() {
	debug := flag.Bool("debug", false, "run for a debugger")
	flag.Parse()
	options := providerserver.ServeOpts{Address: address, Debug: *debug}
	if err := providerserver.Serve(context.Background(), terraform.New, options); err != nil {
		log.Fatal(err)
	}
}
