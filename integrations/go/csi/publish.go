package csi

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
)

// Keys of a publish context: what a node needs to find the device.
const (
	publishTarget  = "targetIQN"
	publishPortals = "portals"
	publishLUN     = "lun"
	publishNAA     = "naa"
	publishSize    = "size"
	publishCHAP    = "chap"
	// publishReadOnly: the array refuses writes. publishWritten: the volume has data, so that it may have to be kept.
	publishReadOnly = "readOnly"
	publishWritten  = "written"
)

// Keys of the secrets for publishing and staging.
const (
	secretUser         = "chapUser"
	secretSecret       = "chapSecret"
	secretMutualUser   = "mutualChapUser"
	secretMutualSecret = "mutualChapSecret"
)

// labelNode has the name of the node that a host stands for.
const labelNode = "csi.node"

// ControllerPublishVolume connects a volume to the host of a node, which is created if there is none.
func (d *Driver) ControllerPublishVolume(ctx context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetNodeId() == "" {
		return nil, invalid("a volume id and a node id are needed")
	}
	if err := capable(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	node, err := parseNodeID(request.GetNodeId())
	if err != nil {
		return nil, err
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	volume, err := d.show(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	host, err := d.ensureHost(ctx, node, request.GetSecrets())
	if err != nil {
		return nil, err
	}
	if err := d.mayConnect(volume, host, request); err != nil {
		return nil, err
	}
	attached, err := array.Decode[array.Attachment](d.api.CreateConnection(ctx, array.NewConnection{
		Volume:   volume.ID,
		Host:     nullable.NewNullableWithValue(host.ID),
		MinLun:   nullable.NewNullableWithValue[int32](1),
		ReadOnly: &request.Readonly,
	}))
	var refused *array.Error
	if as(err, &refused) && refused.Kind == array.Differs && refused.Field == "min_lun" {
		// Another caller has connected it, as LUN 0, which is as good.
		attached, err = array.Decode[array.Attachment](d.api.ShowConnection(ctx, volume.ID, host.ID))
	}
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: publishContext(attached, volume)}, nil
}

func publishContext(attached array.Attachment, volume array.Volume) map[string]string {
	var portals []string
	for _, portal := range attached.Portals {
		portals = append(portals, net.JoinHostPort(portal.Address, strconv.Itoa(int(portal.Port))))
	}
	return map[string]string{
		publishTarget:  attached.TargetIqn,
		publishPortals: strings.Join(portals, ","),
		publishLUN:     strconv.Itoa(int(attached.Lun)),
		publishNAA:     strings.TrimPrefix(attached.Naa, "naa."),
		publishSize:    strconv.FormatInt(attached.Size, 10),
		publishCHAP:    strconv.FormatBool(attached.Chap),

		publishReadOnly: strconv.FormatBool(attached.ReadOnly),
		publishWritten:  strconv.FormatBool(volume.Mapped > 0),
	}
}

// mayConnect refuses what another connection of the volume excludes.
func (d *Driver) mayConnect(volume array.Volume, host array.Host, request *csi.ControllerPublishVolumeRequest) error {
	var others []array.Connection
	own := false
	for _, connection := range volume.Connections {
		if array.Value(connection.HostID) == host.ID {
			own = true
			if connection.ReadOnly != request.GetReadonly() {
				return status.Errorf(codes.AlreadyExists, "volume %s is published to node %s with readonly=%t", volume.Name, host.Name, connection.ReadOnly)
			}
		} else {
			others = append(others, connection)
		}
	}
	if len(others) > 0 && oneNode(request.GetVolumeCapability().GetAccessMode().GetMode()) {
		return status.Errorf(codes.FailedPrecondition, "volume %s is for one node at a time, and it is connected to %s", volume.Name, users(others))
	}
	if most := d.config.MaxVolumes; !own && most > 0 && int64(len(host.Connections)) >= most {
		return status.Errorf(codes.ResourceExhausted, "node %s has %d volumes, the most that it may have", host.Name, len(host.Connections))
	}
	return nil
}

// users names the hosts and host groups of connections.
func users(connections []array.Connection) string {
	var names []string
	for _, connection := range connections {
		if name := array.Value(connection.Host); name != "" {
			names = append(names, "host "+name)
		} else {
			names = append(names, "host group "+array.Value(connection.HostGroup))
		}
	}
	return strings.Join(names, ", ")
}

// ensureHost returns the host of a node. One that an operator made for the same initiator is used as it is.
func (d *Driver) ensureHost(ctx context.Context, node NodeID, secrets map[string]string) (array.Host, error) {
	chap, mutual, err := credentials(secrets)
	if err != nil {
		return array.Host{}, err
	}
	found, err := d.api.HostOf(ctx, node.Initiator)
	if err != nil {
		return array.Host{}, err
	}
	if found != nil {
		if !d.isOwn(found.Labels) || chap == nil || array.Value(found.ChapUser) == chap.User {
			return *found, nil
		}
		// CHAP was switched on, or has a new user.
		change := array.HostChange{Chap: nullable.NewNullableWithValue(*chap)}
		if mutual != nil {
			change.Mutual = nullable.NewNullableWithValue(*mutual)
		}
		return array.Decode[array.Host](d.api.ChangeHost(ctx, found.ID, change))
	}
	labels := d.own(map[string]string{labelNode: node.Name})
	made := array.NewHost{Name: d.hostName(node), Initiators: []string{node.Initiator}, Labels: &labels}
	if chap != nil {
		made.Chap = nullable.NewNullableWithValue(*chap)
	}
	if mutual != nil {
		made.Mutual = nullable.NewNullableWithValue(*mutual)
	}
	host, err := array.Decode[array.Host](d.api.CreateHost(ctx, made))
	if array.IsKind(err, array.Conflict) {
		// Another call may have been faster.
		if found, again := d.api.HostOf(ctx, node.Initiator); again == nil && found != nil {
			return *found, nil
		}
	}
	return host, err
}

// maxName is the array's limit of a name in characters.
const maxName = 63

// hostName is the node's name with the prefix if the array takes it, so that people recognize it, or a hash. The cluster
// is part of the hash only: two clusters with nodes of one name have different initiators, and the array then reports a
// conflict of names, which the hash avoids.
func (d *Driver) hostName(node NodeID) string {
	return d.config.Prefix + "-" + array.Hash(d.config.Cluster + "/" + node.Name + "/" + node.Initiator)[:8] + "-" + short(node.Name)
}

// short returns what of a node's name a name on the array can have.
func short(name string) string {
	const room = maxName - 16 - 10
	clean := strings.Map(func(letter rune) rune {
		if letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z' || letter >= '0' && letter <= '9' || letter == '.' || letter == '-' {
			return letter
		}
		return '-'
	}, name)
	return clean[:min(len(clean), room)]
}

// credentials reads CHAP secrets; none means that CHAP is not asked for.
func credentials(secrets map[string]string) (chap, mutual *array.Chap, err error) {
	read := func(user, secret string) (*array.Chap, error) {
		if secrets[user] == "" && secrets[secret] == "" {
			return nil, nil
		}
		if secrets[user] == "" || secrets[secret] == "" {
			return nil, invalid("the secret has only one of %s and %s", user, secret)
		}
		return &array.Chap{User: secrets[user], Secret: secrets[secret]}, nil
	}
	if chap, err = read(secretUser, secretSecret); err != nil {
		return nil, nil, err
	}
	if mutual, err = read(secretMutualUser, secretMutualSecret); err != nil {
		return nil, nil, err
	}
	if mutual != nil && chap == nil {
		return nil, nil, invalid("mutual CHAP needs %s and %s as well", secretUser, secretSecret)
	}
	return chap, mutual, nil
}

// ControllerUnpublishVolume disconnects a volume from a node, or from every node of this cluster if none is named. It is the
// fence when a node is lost: when it returns, the node can't write any more.
func (d *Driver) ControllerUnpublishVolume(ctx context.Context, request *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, invalid("no volume id")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	done := &csi.ControllerUnpublishVolumeResponse{}
	volume, err := d.show(ctx, request.GetVolumeId())
	if gone(err) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	hosts, err := d.hostsToLeave(ctx, request.GetNodeId())
	if err != nil {
		return nil, err
	}
	for _, connection := range volume.Connections {
		host := array.Value(connection.HostID)
		if host == "" || !hosts[host] {
			continue
		}
		if err := array.Unless(array.NotFound, array.Done(d.api.DeleteConnection(ctx, volume.ID, host))); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// hostsToLeave returns the ids of the hosts that a volume is to be disconnected from.
func (d *Driver) hostsToLeave(ctx context.Context, node string) (map[string]bool, error) {
	if node == "" {
		hosts, err := d.api.AllHosts(ctx, array.LabelQuery(d.own(nil)))
		ids := make(map[string]bool, len(hosts))
		for _, host := range hosts {
			ids[host.ID] = true
		}
		return ids, err
	}
	id, err := parseNodeID(node)
	if err != nil {
		// No such node was ever published to.
		return nil, nil
	}
	host, err := d.api.HostOf(ctx, id.Initiator)
	if err != nil || host == nil {
		return nil, err
	}
	return map[string]bool{host.ID: true}, nil
}
