// Package catalogue is the array's catalogue of messages, from which vCenter's events and alarms and the dashboards for logs are
// made.
package catalogue

//go:generate go run ./write ../../../../docs/monitoring/messages.json kinds.gen.go

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
	// The following are of events only.
	Replication   Category = "replication"
	Security      Category = "security"
	Configuration Category = "configuration"
)

// Categories of alerts with the names that people read.
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

// Kind is a kind of message.
type Kind struct {
	// Name is its identifier in the API, and the MSGID in syslog.
	Name     string
	Category Category
	Meaning  string
}

// Value is a number of a message with statistics.
type Value struct{ Name, Meaning string }

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
