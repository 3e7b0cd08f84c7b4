package flash

import (
	"context"
	"maps"
	"slices"
	"strings"

	"ashlar/integrations/array"
)

type tag struct {
	Key       string `json:"key"`
	Value     string `json:"value"`
	Namespace string `json:"namespace"`
	Copyable  bool   `json:"copyable"`
}

// setTags keeps tags in labels, without regard to their namespaces. Tags without a value are removed.
func (c *call) setTags() ([]object, error) {
	var tags []tag
	if err := c.read(&tags); err != nil {
		return nil, err
	}
	labels := map[string]*string{}
	made := []object{}
	for _, each := range tags {
		labels[tagLabel+each.Key] = nil
		if each.Value != "" {
			labels[tagLabel+each.Key] = &each.Value
		}
	}
	_, err := c.each("resource_names", func(name string) (object, error) {
		volume, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		for _, each := range tags {
			made = append(made, object{
				"key": each.Key, "value": nothing(each.Value), "namespace": each.Namespace, "copyable": each.Copyable,
				"resource": object{"name": name, "id": volume.ID},
			})
		}
		return nil, c.label(c, volume.ID, labels)
	})
	return made, err
}

// tags lists those of volumes that are in use.
func (c *call) tags() ([]object, error) {
	made := []object{}
	if c.query.Get("resource_destroyed") == "true" {
		return made, nil
	}
	wanted := c.names("resource_names")
	for _, name := range wanted {
		if _, err := c.volume(name); err != nil {
			return nil, err
		}
	}
	all, err := c.api.AllVolumes(c, "")
	for _, volume := range all {
		name := withGroup(array.Value(volume.Group), volume.Name)
		if wanted != nil && !slices.Contains(wanted, name) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(volume.Labels)) {
			if own, is := strings.CutPrefix(key, tagLabel); is {
				made = append(made, object{
					"key": own, "value": volume.Labels[key], "namespace": "default", "copyable": true,
					"resource": object{"name": name, "id": volume.ID},
				})
			}
		}
	}
	return made, err
}

func (c *call) label(ctx context.Context, volume string, labels map[string]*string) error {
	return array.Done(c.api.ChangeVolume(ctx, volume, array.VolumeChange{Labels: &labels}))
}

// removeTags removes those with the given keys; all without such.
func (c *call) removeTags() ([]object, error) {
	keys := c.names("keys")
	return c.each("resource_names", func(name string) (object, error) {
		volume, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		labels := map[string]*string{}
		for key := range volume.Labels {
			if own, is := strings.CutPrefix(key, tagLabel); is && (keys == nil || slices.Contains(keys, own)) {
				labels[key] = nil
			}
		}
		return nil, c.label(c, volume.ID, labels)
	})
}
