// Package catalogue lists the kinds of alerts of an array, from which vCenter's events and alarms and the dashboards for logs
// are made.
package catalogue

import "ashlar/integrations/array"

// Category is what an alarm of vCenter stands for: all alerts of a category raise one alarm.
type Category string

const (
	Space      Category = "space"
	Quota      Category = "quota"
	Protection Category = "protection"
	Drives     Category = "drives"
	Paths      Category = "paths"
	Volume     Category = "volume"
	Management Category = "management"
)

// Categories with the names that people read.
var Categories = []struct {
	Category Category
	Title    string
}{
	{Space, "Ashlar: space of the array"},
	{Quota, "Ashlar: quota of the volume group"},
	{Protection, "Ashlar: protection of the data"},
	{Drives, "Ashlar: drives of the array"},
	{Paths, "Ashlar: paths of a host"},
	{Volume, "Ashlar: state of the volume"},
	{Management, "Ashlar: management of the array"},
}

// Kind is a kind of alerts.
type Kind struct {
	Name     string
	Category Category
	Meaning  string
}

// Kinds are those of docs/operating/monitoring.md; a test compares them.
var Kinds = []Kind{
	{"array.stopped", Protection, "the array stopped to protect data"},
	{"space.threshold", Space, "little space is free"},
	{"space.forecast", Space, "the drives will be full soon"},
	{"space.map", Space, "the map pages that memory allows are almost used up"},
	{"group.quota", Quota, "a volume group is over its soft quota or at its hard quota"},
	{"drive.failed", Drives, "a drive failed or is missing"},
	{"drive.evacuating", Drives, "a drive is being evacuated"},
	{"drive.checksum-errors", Drives, "a drive returned data with wrong checksums"},
	{"drive.failing", Drives, "a drive reports or predicts a failure"},
	{"drive.worn", Drives, "the rated endurance of a drive is used up"},
	{"drive.slow", Drives, "a drive is much slower than the others"},
	{"drive.no-space", Space, "the file system under the drives is full"},
	{"drive.overcommitted", Space, "the file system under the drives is smaller than the drives may grow"},
	{"drive.stray", Drives, "a drive that was of this array is no member now"},
	{"drive.unwiped", Drives, "a drive could not be wiped"},
	{"store.near-full", Space, "a pool of the store in Ceph is nearly full"},
	{"controller.lost", Protection, "a controller is lost"},
	{"controller.alone", Protection, "only one of several controllers is left"},
	{"controller.versions", Management, "the controllers run different versions"},
	{"replication.rpo", Protection, "a replication misses its RPO"},
	{"replication.no-space", Space, "a replication waits for space on the target"},
	{"replication.out-of-sync", Protection, "both arrays of a synchronous replication are not the same"},
	{"replication.writes-stopped", Protection, "the volumes of a synchronous replication refuse writes"},
	{"replication.split", Protection, "the volumes of both arrays of a replication take writes"},
	{"scrub.found", Protection, "the last scrub found wrong pages"},
	{"protection.degraded", Protection, "fewer drives than usual may fail"},
	{"protection.low", Protection, "there are too few drives for dual parity"},
	{"protection.rebuilding", Protection, "data are being rebuilt"},
	{"data.lost", Protection, "data are lost"},
	{"metadata.contradiction", Protection, "metadata on the drives contradict each other"},
	{"portal.down", Paths, "a portal can't listen"},
	{"api.down", Management, "the API can't listen on its address"},
	{"host.one-path", Paths, "a host uses one portal only"},
	{"host.uneven-paths", Paths, "a host uses its paths unevenly"},
	{"volume.state-unreadable", Volume, "saved reservations of a volume can't be read"},
	{"upgrade.uncommitted", Management, "the array has an older format than its software knows"},
	{"clock.jumped", Management, "the clock jumped"},
	{"history.memory", Management, "the history file can't be used"},
	{"secrets.locked", Management, "sealed secrets can't be opened"},
	{"certificate.temporary", Management, "a temporary certificate is shown"},
	{"certificate.expiry", Management, "the certificate expires soon"},
	{"folder.api.json", Management, "a file in the data folder can't be written"},
	{"folder.tls.pem", Management, "a file in the data folder can't be written"},
	{"remote-array.disconnected", Management, "a paired array can not be reached"},
	{"notification.failing", Management, "a notification target can't be reached"},
}

// Of returns the category of a kind. One of a newer array is about its management.
func Of(kind string) Category {
	for _, known := range Kinds {
		if known.Name == kind {
			return known.Category
		}
	}
	return Management
}

// Event is the id of vCenter's event for a severity of a category; without one, the event that ends it.
func Event(category Category, severity array.Severity) string {
	if severity == "" {
		severity = "cleared"
	}
	return Key + "." + string(category) + "." + string(severity)
}

// Key of the extension in vCenter, in which its events begin.
const Key = "org.ashlar.array"

// Severities from the least.
var Severities = []array.Severity{array.SeverityInfo, array.SeverityWarning, array.SeverityCritical}
