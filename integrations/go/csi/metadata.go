package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
)

// maxExtents is how many extents a message has if the caller names no number, and the most that it has.
const maxExtents = 4096

// GetMetadataAllocated streams the extents of a snapshot that have data.
func (d *Driver) GetMetadataAllocated(request *csi.GetMetadataAllocatedRequest, stream csi.SnapshotMetadata_GetMetadataAllocatedServer) error {
	if request.GetSnapshotId() == "" {
		return invalid("no snapshot id")
	}
	snapshot, err := d.showSnapshot(stream.Context(), request.GetSnapshotId())
	if err != nil {
		return err
	}
	walk := walk{from: request.GetStartingOffset(), most: request.GetMaxResults(), mapped: true}
	return d.extents(stream.Context(), snapshot, walk, func(extents []*csi.BlockMetadata) error {
		return stream.Send(&csi.GetMetadataAllocatedResponse{
			BlockMetadataType:   csi.BlockMetadataType_VARIABLE_LENGTH,
			VolumeCapacityBytes: snapshot.Size,
			BlockMetadata:       extents,
		})
	})
}

// GetMetadataDelta streams the extents in which two snapshots of one volume differ. An extent that was unmapped in between is
// one of them: it reads as zeros.
func (d *Driver) GetMetadataDelta(request *csi.GetMetadataDeltaRequest, stream csi.SnapshotMetadata_GetMetadataDeltaServer) error {
	if request.GetBaseSnapshotId() == "" || request.GetTargetSnapshotId() == "" {
		return invalid("two snapshot ids are needed")
	}
	base, err := d.showSnapshot(stream.Context(), request.GetBaseSnapshotId())
	if err != nil {
		return err
	}
	target, err := d.showSnapshot(stream.Context(), request.GetTargetSnapshotId())
	if err != nil {
		return err
	}
	if base.SourceID != target.SourceID {
		return invalid("snapshots %s and %s are not of one volume", base.Name, target.Name)
	}
	walk := walk{base: &base.ID, from: request.GetStartingOffset(), most: request.GetMaxResults()}
	return d.extents(stream.Context(), target, walk, func(extents []*csi.BlockMetadata) error {
		return stream.Send(&csi.GetMetadataDeltaResponse{
			BlockMetadataType:   csi.BlockMetadataType_VARIABLE_LENGTH,
			VolumeCapacityBytes: target.Size,
			BlockMetadata:       extents,
		})
	})
}

// walk is what of a comparison is streamed.
type walk struct {
	base   *string
	from   int64 // bytes
	most   int32 // extents a message; 0: the driver's number
	mapped bool  // only extents with data
}

// extents sends a comparison page by page. A page is a message, so the array's order and bounds are kept.
func (d *Driver) extents(ctx context.Context, snapshot array.Snapshot, walk walk, send func([]*csi.BlockMetadata) error) error {
	if walk.from < 0 || walk.most < 0 {
		return invalid("a negative offset or number of results")
	}
	if walk.from >= snapshot.Size {
		return status.Errorf(codes.OutOfRange, "offset %d is beyond the snapshot's %d bytes", walk.from, snapshot.Size)
	}
	limit := maxExtents
	if walk.most > 0 {
		limit = min(limit, int(walk.most))
	}
	offset, sent := walk.from, false
	for {
		page, err := array.Decode[array.Difference](d.api.CompareSnapshots(ctx, snapshot.ID,
			&array.CompareSnapshotsParams{Base: walk.base, Offset: &offset, Limit: &limit}))
		if err != nil {
			return err
		}
		var extents []*csi.BlockMetadata
		for _, extent := range page.Items {
			if extent.Mapped || !walk.mapped {
				extents = append(extents, &csi.BlockMetadata{ByteOffset: extent.Offset, SizeBytes: extent.Length})
			}
		}
		next, err := page.Next.Get()
		last := err != nil
		// An empty stream has one message, which names the size.
		if len(extents) > 0 || last && !sent {
			if err := send(extents); err != nil {
				return err
			}
			sent = true
		}
		if last {
			return nil
		}
		if next <= offset {
			return status.Errorf(codes.Internal, "the array's comparison does not go on after offset %d", offset)
		}
		offset = next
	}
}
