package csi

import (
	"context"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
)

// groups is the service of CSI-Addons for groups of volumes that are replicated as a whole: volume groups of the array. A volume is in
// one group at most.
type groups struct {
	volumegroup.UnimplementedControllerServer
	driver *Driver
}

func (d *Driver) registerGroups(server grpc.ServiceRegistrar) {
	volumegroup.RegisterControllerServer(server, groups{driver: d})
}

// CreateVolumeGroup creates a group of volumes, which must be in no other one.
func (g groups) CreateVolumeGroup(ctx context.Context, request *volumegroup.CreateVolumeGroupRequest) (*volumegroup.CreateVolumeGroupResponse, error) {
	d, name := g.driver, request.GetName()
	if name == "" {
		return nil, invalid("a volume group needs a name")
	}
	if err := noParameters(request.GetParameters()); err != nil {
		return nil, err
	}
	leave, err := d.busy.enter(ctx, "volume group "+name)
	if err != nil {
		return nil, err
	}
	defer leave()
	hash := array.Hash(name)
	group, err := d.groupWith(ctx, d.own(map[string]string{labelRequest: hash}))
	if err != nil {
		return nil, err
	}
	known := ""
	if group != nil {
		known = group.ID
	}
	// First: a group whose volumes can't be in it is not made.
	members, err := g.members(ctx, request.GetVolumeIds(), known)
	if err != nil {
		return nil, err
	}
	if group == nil {
		labels := d.own(map[string]string{labelRequest: hash, labelName: name})
		made, err := array.Decode[array.Group](d.api.CreateGroup(ctx, array.NewGroup{Name: d.config.Prefix + "-" + hash, Labels: &labels}))
		if err != nil {
			return nil, err
		}
		group = &made
	}
	answer, err := g.setMembers(ctx, *group, members)
	return &volumegroup.CreateVolumeGroupResponse{VolumeGroup: answer}, err
}

func noParameters(parameters map[string]string) error {
	for key := range parameters {
		if !strings.HasPrefix(key, orchestratorPrefix) {
			return invalid("there is no parameter %q for volume groups: there are none", key)
		}
	}
	return nil
}

// show returns the group of a handle.
func (g groups) show(ctx context.Context, id string) (array.Group, error) {
	if id == "" {
		return array.Group{}, invalid("no volume group id")
	}
	own, err := g.driver.arraySerial(ctx)
	if err != nil {
		return array.Group{}, err
	}
	p := &protected{handle: id, isGroup: true, api: g.driver.api}
	var well bool
	if p.serial, p.id, well = parseHandle(id); well && len(p.id) == groupDigits {
		if err := g.driver.findGroup(ctx, p, own); err != nil {
			return array.Group{}, err
		}
	}
	if p.group == nil {
		return array.Group{}, status.Errorf(codes.NotFound, "there is no volume group %s on array %s", id, own)
	}
	return *p.group, nil
}

// members returns the volumes of handles. One that is in another group than this is refused; empty: in any.
func (g groups) members(ctx context.Context, handles []string, group string) ([]array.Volume, error) {
	var found []array.Volume
	for _, handle := range handles {
		volume, err := g.driver.show(ctx, handle)
		if err != nil {
			return nil, err
		}
		if its := array.Value(volume.GroupID); its != "" && its != group {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in volume group %q, and can be in one only", handle, array.Value(volume.Group))
		}
		found = append(found, volume)
	}
	return found, nil
}

// setMembers makes the group have exactly these volumes, and returns it.
func (g groups) setMembers(ctx context.Context, group array.Group, members []array.Volume) (*volumegroup.VolumeGroup, error) {
	before, err := g.volumes(ctx, group)
	if err != nil {
		return nil, err
	}
	move := func(volume array.Volume, to nullable.Nullable[string]) error {
		return refusal(array.Done(g.driver.api.ChangeVolume(ctx, volume.ID, array.VolumeChange{Group: to})))
	}
	isIn := func(all []array.Volume, it array.Volume) bool {
		return slices.ContainsFunc(all, func(other array.Volume) bool { return other.ID == it.ID })
	}
	for _, volume := range members {
		if !isIn(before, volume) {
			if err := move(volume, nullable.NewNullableWithValue(group.ID)); err != nil {
				return nil, err
			}
		}
	}
	for _, volume := range before {
		if !isIn(members, volume) {
			if err := move(volume, nullable.NewNullNullable[string]()); err != nil {
				return nil, err
			}
		}
	}
	return g.answer(ctx, group)
}

func (g groups) volumes(ctx context.Context, group array.Group) ([]array.Volume, error) {
	filter := "group_id=" + group.ID
	return array.All(func(limit, offset int) ([]array.Volume, int, error) {
		list, err := array.Decode[array.Volumes](g.driver.api.ListVolumes(ctx, &array.ListVolumesParams{Limit: &limit, Offset: &offset, Filter: &filter}))
		return list.Items, list.Total, err
	})
}

// answer is a group with its volumes.
func (g groups) answer(ctx context.Context, group array.Group) (*volumegroup.VolumeGroup, error) {
	serial, err := g.driver.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := g.volumes(ctx, group)
	if err != nil {
		return nil, err
	}
	made := &volumegroup.VolumeGroup{VolumeGroupId: group.Labels[labelReplica]}
	if made.VolumeGroupId == "" {
		made.VolumeGroupId = handle(serial, group.ID)
	}
	for _, volume := range volumes {
		made.Volumes = append(made.Volumes, g.driver.volume(serial, volume, nil))
	}
	return made, nil
}

// ModifyVolumeGroupMembership makes a group have exactly the volumes of the request. What a replica has is decided at its source: until it
// is promoted nothing is done.
func (g groups) ModifyVolumeGroupMembership(ctx context.Context, request *volumegroup.ModifyVolumeGroupMembershipRequest) (*volumegroup.ModifyVolumeGroupMembershipResponse, error) {
	if err := noParameters(request.GetParameters()); err != nil {
		return nil, err
	}
	leave, err := g.driver.busy.enter(ctx, request.GetVolumeGroupId())
	if err != nil {
		return nil, err
	}
	defer leave()
	group, err := g.show(ctx, request.GetVolumeGroupId())
	if gone(err) {
		return g.unpromoted(ctx, request, err)
	}
	if err != nil {
		return nil, err
	}
	if len(request.GetVolumeIds()) == 0 {
		p, err := g.driver.protect(ctx, ofGroup(request.GetVolumeGroupId()), "", nil)
		if err != nil {
			return nil, err
		}
		if p.of != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "volume group %s is replicated, and a replicated group has volumes: disable its replication first", group.Name)
		}
	}
	members, err := g.members(ctx, request.GetVolumeIds(), group.ID)
	if err != nil {
		return nil, err
	}
	answer, err := g.setMembers(ctx, group, members)
	return &volumegroup.ModifyVolumeGroupMembershipResponse{VolumeGroup: answer}, err
}

// unpromoted answers for a group that this array is to get. One that is not replicated to it is not found, as said.
func (g groups) unpromoted(ctx context.Context, request *volumegroup.ModifyVolumeGroupMembershipRequest, missing error) (*volumegroup.ModifyVolumeGroupMembershipResponse, error) {
	p, err := g.driver.protect(ctx, ofGroup(request.GetVolumeGroupId()), "", nil)
	if gone(err) || err == nil && p.of == nil {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	made := &volumegroup.VolumeGroup{VolumeGroupId: request.GetVolumeGroupId()}
	for _, handle := range request.GetVolumeIds() {
		made.Volumes = append(made.Volumes, &csi.Volume{VolumeId: handle})
	}
	return &volumegroup.ModifyVolumeGroupMembershipResponse{VolumeGroup: made}, nil
}

// DeleteVolumeGroup deletes a group. Its volumes stay, in no group.
func (g groups) DeleteVolumeGroup(ctx context.Context, request *volumegroup.DeleteVolumeGroupRequest) (*volumegroup.DeleteVolumeGroupResponse, error) {
	leave, err := g.driver.busy.enter(ctx, request.GetVolumeGroupId())
	if err != nil {
		return nil, err
	}
	defer leave()
	group, err := g.show(ctx, request.GetVolumeGroupId())
	if gone(err) {
		return &volumegroup.DeleteVolumeGroupResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if !g.driver.isOwn(group.Labels) {
		return nil, status.Errorf(codes.FailedPrecondition, "volume group %s was not made by driver %s of cluster %s, so it is not deleted: delete it on the array",
			group.Name, g.driver.config.Driver, g.driver.config.Cluster)
	}
	if err := array.Unless(array.NotFound, array.Done(g.driver.api.DeleteGroup(ctx, group.ID))); err != nil {
		return nil, refusal(err)
	}
	return &volumegroup.DeleteVolumeGroupResponse{}, nil
}

// ListVolumeGroups returns the groups of this driver and cluster.
func (g groups) ListVolumeGroups(ctx context.Context, request *volumegroup.ListVolumeGroupsRequest) (*volumegroup.ListVolumeGroupsResponse, error) {
	offset, limit, err := page(request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	label := array.LabelQuery(g.driver.own(nil))
	list, err := array.Decode[array.Groups](g.driver.api.ListGroups(ctx, &array.ListGroupsParams{Limit: limit, Offset: &offset, Sort: &byID, Label: &label}))
	if err != nil {
		return nil, err
	}
	response := &volumegroup.ListVolumeGroupsResponse{NextToken: next(offset, len(list.Items), list.Total)}
	for _, group := range list.Items {
		answer, err := g.answer(ctx, group)
		if err != nil {
			return nil, err
		}
		response.Entries = append(response.Entries, &volumegroup.ListVolumeGroupsResponse_Entry{VolumeGroup: answer})
	}
	return response, nil
}

// ControllerGetVolumeGroup returns a group with its volumes.
func (g groups) ControllerGetVolumeGroup(ctx context.Context, request *volumegroup.ControllerGetVolumeGroupRequest) (*volumegroup.ControllerGetVolumeGroupResponse, error) {
	group, err := g.show(ctx, request.GetVolumeGroupId())
	if err != nil {
		return nil, err
	}
	answer, err := g.answer(ctx, group)
	return &volumegroup.ControllerGetVolumeGroupResponse{VolumeGroup: answer}, err
}
