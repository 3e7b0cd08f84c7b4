package sra

import (
	"encoding/xml"
	"time"
)

// Response is what is written to the output file: one result, or an error of the whole command.
type Response struct {
	XMLName   xml.Name `xml:"Response"`
	Namespace string   `xml:"xmlns,attr"`
	Results   []any
	Error     *Failure `xml:"Error"`
}

// Empty is an element whose presence says everything.
type Empty struct{}

// Failure is an error, of the command or of one object. The others are not affected by it.
type Failure struct {
	Code        int    `xml:"code,attr"`
	Description string `xml:"Description,omitempty"`
	FixHint     string `xml:"FixHint,omitempty"`
}

// States of devices and groups.
const (
	readWrite = "read-write"
	readOnly  = "read-only"
)

type identity struct {
	Wwn string
}

type recoveryPoint struct {
	ID   string `xml:"id,attr"`
	Name string `xml:"Name,omitempty"`
	Time string
}

type snapshot struct {
	ID            string         `xml:"id,attr"`
	Identity      *identity      `xml:"Identity"`
	RecoveryPoint *recoveryPoint `xml:"RecoveryPoint"`
}

type keyed struct {
	Key string `xml:"key,attr"`
}

type sourceDevice struct {
	ID           string `xml:"id,attr"`
	State        string `xml:"state,attr"`
	Name         string
	TargetDevice keyed
	Identity     *identity `xml:"Identity"`
}

type targetDevice struct {
	Key           string `xml:"key,attr"`
	ID            string `xml:"id,attr,omitempty"`
	State         string `xml:"state,attr,omitempty"`
	Name          string `xml:"Name,omitempty"`
	Identity      *identity
	Snapshot      *snapshot
	RecoveryPoint *recoveryPoint
	Error         *Failure
}

type consistencyGroup struct {
	ID            string `xml:"id,attr"`
	State         string `xml:"state,attr"`
	Name          string
	TargetGroup   keyed
	SourceDevices []sourceDevice `xml:"SourceDevices>SourceDevice"`
}

type targetGroup struct {
	Key           string `xml:"key,attr"`
	ID            string `xml:"id,attr,omitempty"`
	State         string `xml:"state,attr,omitempty"`
	Name          string `xml:"Name,omitempty"`
	TargetDevices *targetDevices
	Success       *Empty
	Error         *Failure
}

// The elements around several others; they are left out if there are none.
type (
	targetDevices     struct{ TargetDevice []targetDevice }
	targetsDone       struct{ TargetGroup []targetGroup }
	consistencyGroups struct{ ConsistencyGroup []consistencyGroup }
)

func (g *targetGroup) add(device targetDevice) {
	if g.TargetDevices == nil {
		g.TargetDevices = &targetDevices{}
	}
	g.TargetDevices.TargetDevice = append(g.TargetDevices.TargetDevice, device)
}

type replicatedDevices struct {
	XMLName           xml.Name `xml:"ReplicatedDevices"`
	ConsistencyGroups *consistencyGroups
	TargetGroups      *targetsDone
}

// results is the element of commands about objects: its name is the command's.
type results struct {
	XMLName           xml.Name
	ConsistencyGroups *outcomes    `xml:"ConsistencyGroups"`
	SourceDevices     *outcomes    `xml:"SourceDevices"`
	Devices           *outcomes    `xml:"Devices"`
	TargetGroups      *targetsDone `xml:"TargetGroups"`
	TargetDevices     *outcomes    `xml:"TargetDevices"`
}

type outcomes struct {
	Items []outcome
}

// outcome of one object, which is named by an id or a key.
type outcome struct {
	XMLName    xml.Name
	ID         string `xml:"id,attr,omitempty"`
	Key        string `xml:"key,attr,omitempty"`
	DeviceSync *deviceSync
	Success    *Empty
	Error      *Failure
}

type deviceSync struct {
	ID        string `xml:"id,attr"`
	Status    string `xml:"status,attr"`
	Progress  *int
	Remaining *int `xml:"RemainingTimeEstimate"`
}

func named(name string) xml.Name { return xml.Name{Local: name} }

func utc(at time.Time) string { return at.UTC().Format(time.RFC3339) }
