// Package addons has the services of CSI-Addons that the driver serves beside those of CSI: what it can do, replication, and reclaiming
// space. The specification's own module can't be had from a module proxy, so its wire format is declared here, and Go's own
// generators write the rest.
package addons

//go:generate go run ./write identity.proto replication.proto reclaimspace.proto
