package sra

import (
	"context"
	"encoding/xml"
	"fmt"
)

// settingsCommand asks how the targets are replicated. It is performed and not offered: the schema of its response is in no public
// source but for its outermost elements, and Site Recovery Manager asks only adapters that offer it.
const settingsCommand = "queryReplicationSettings"

type replicationSettings struct {
	XMLName       xml.Name     `xml:"ReplicationSettings"`
	TargetGroups  *targetsDone `xml:"TargetGroups"`
	TargetDevices *outcomes    `xml:"TargetDevices"`
}

// queryReplicationSettings describes the target groups that the command names, or all of them, as discovery does: no site is
// preferred for any, and no storage is stretched over both.
func queryReplicationSettings(ctx context.Context, c *call) (any, error) {
	replicated, volumes, err := c.replicated(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]targetGroup{}
	asked := c.in.TargetGroups
	for _, it := range replicated {
		if it.Role != target {
			continue
		}
		made := c.targetGroup(it, volumes)
		known[made.Key] = made
		if len(c.in.TargetGroups) == 0 && len(c.in.TargetDevices) == 0 {
			asked = append(asked, TargetGroup{Key: made.Key})
		}
	}
	var found replicationSettings
	for _, group := range asked {
		made, there := known[group.Key]
		if !there {
			err := fail(codeNoGroup, fmt.Sprintf("array %s is not the target of %q", c.serial, group.Key))
			made = targetGroup{Key: group.Key, Error: failure(err)}
		}
		if found.TargetGroups == nil {
			found.TargetGroups = &targetsDone{}
		}
		found.TargetGroups.TargetGroup = append(found.TargetGroups.TargetGroup, made)
	}
	for _, device := range c.in.TargetDevices {
		if found.TargetDevices == nil {
			found.TargetDevices = &outcomes{}
		}
		it := outcome{XMLName: named("TargetDevice"), Key: device.Key, Error: failure(notSingle(device.Key))}
		found.TargetDevices.Items = append(found.TargetDevices.Items, it)
	}
	return found, nil
}
