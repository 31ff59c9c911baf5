package hostpath

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// idPattern is the shape of our ids: kind, chance, and the node they were made on.
var idPattern = regexp.MustCompile(`^(vol|snap)-[0-9a-f]{20}-[0-9a-f]{8}$`)

// newID makes an id: a safe path component, unique over all nodes.
func (d *driver) newID(kind string) string {
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails
	return kind + "-" + hex.EncodeToString(b) + "-" + nodeMark(d.cfg.NodeID)
}

func nodeMark(nodeID string) string {
	sum := sha256.Sum256([]byte(nodeID))
	return hex.EncodeToString(sum[:4])
}

// elsewhere is the answer for an id of ours that another node made: ask there. It is nil for any other.
func (d *driver) elsewhere(id string) error {
	if idPattern.MatchString(id) && id[len(id)-8:] != nodeMark(d.cfg.NodeID) {
		return fail(codes.Unavailable, "%s is on another node than %s", id, d.cfg.NodeID)
	}
	return nil
}

// volume finds a volume that is there to be used.
func (d *driver) volume(id string) (*volume, error) {
	if id == "" {
		return nil, fail(codes.InvalidArgument, "volume_id is missing")
	}
	if v, ok := d.store.volumes.get(id); ok && v.State == stateReady {
		return v, nil
	}
	if err := d.elsewhere(id); err != nil {
		return nil, err
	}
	return nil, fail(codes.NotFound, "no volume %s on node %s", id, d.cfg.NodeID)
}

// wellFormed refuses a capability that means nothing.
func wellFormed(c *csi.VolumeCapability) error {
	switch {
	case c == nil:
		return fail(codes.InvalidArgument, "volume_capability is missing")
	case c.GetAccessType() == nil:
		return fail(codes.InvalidArgument, "volume_capability has no access type")
	case c.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_UNKNOWN:
		return fail(codes.InvalidArgument, "volume_capability has no access mode")
	case csi.VolumeCapability_AccessMode_Mode_name[int32(c.GetAccessMode().GetMode())] == "":
		return fail(codes.InvalidArgument, "volume_capability has an unknown access mode")
	case c.GetMount().GetVolumeMountGroup() != "":
		return fail(codes.InvalidArgument, "volume_mount_group is not supported")
	}
	_, _, err := mountFlags(c.GetMount().GetMountFlags())
	return err
}

// allows refuses a well-formed capability that a volume of a type cannot serve.
func allows(typ, fsType string, c *csi.VolumeCapability) error {
	if c.GetBlock() != nil {
		if typ == typeDirectory {
			return fail(codes.FailedPrecondition, "a directory volume is no block device")
		}
		return nil
	}
	if want := c.GetMount().GetFsType(); want != "" && want != fsType {
		return fail(codes.FailedPrecondition, "a file system of type %s is asked for, the volume has %s", want, or(fsType, "none"))
	}
	bits, data, _ := mountFlags(c.GetMount().GetMountFlags())
	switch {
	case typ == typeImage && fsType == "":
		return fail(codes.FailedPrecondition, "the volume was made as a block device, without a file system")
	case typ == typeDirectory && (len(data) > 0 || bits&^perMount != 0):
		return fail(codes.FailedPrecondition, "a directory volume takes none of the mount flags that are a file system's")
	}
	return nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// useOf is what a record keeps of a capability.
func useOf(c *csi.VolumeCapability) use {
	return use{Block: c.GetBlock() != nil, Mode: int32(c.GetAccessMode().GetMode()), Flags: c.GetMount().GetMountFlags()}
}

// readers are the modes without a writer.
var readers = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY: true,
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:  true,
}

// alone are the modes in which a volume is published at one path only.
var alone = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   true,
}
