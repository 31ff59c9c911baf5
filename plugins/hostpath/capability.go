package hostpath

import (
	"cmp"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"berth/plugins/hostpath/disk"
)

// checkCapability rejects a capability that no volume can have.
func checkCapability(c *csi.VolumeCapability) error {
	mode := c.GetAccessMode().GetMode()
	switch {
	case c == nil:
		return disk.Invalidf("volume_capability is missing")
	case c.GetAccessType() == nil:
		return disk.Invalidf("volume_capability has no access type")
	case mode == csi.VolumeCapability_AccessMode_UNKNOWN:
		return disk.Invalidf("volume_capability has no access mode")
	case csi.VolumeCapability_AccessMode_Mode_name[int32(mode)] == "":
		return disk.Invalidf("volume_capability has an unknown access mode")
	case c.GetMount().GetVolumeMountGroup() != "":
		return disk.Invalidf("volume_mount_group is not supported")
	}

	_, _, err := mountFlags(c.GetMount().GetMountFlags())
	return err
}

// checkAllowed rejects a well-formed capability that a volume of a type cannot serve.
func checkAllowed(typ, fsType string, c *csi.VolumeCapability) error {
	if c.GetBlock() != nil {
		if typ == disk.Directory {
			return disk.Preconditionf("a directory volume is no block device")
		}
		return nil
	}

	mount := c.GetMount()
	want := mount.GetFsType()
	if want != "" && want != fsType {
		return disk.Preconditionf(
			"a file system of type %s is requested, the volume has %s",
			want, cmp.Or(fsType, "none"))
	}

	// Each caller has called checkCapability, which rejects the options that are not allowed.
	bits, data, _ := mountFlags(mount.GetMountFlags())
	switch {
	case typ == disk.Image && fsType == "":
		return disk.Preconditionf("the volume was made as a block device, without a file system")
	case typ == disk.Directory && (len(data) > 0 || bits&^perMountFlags != 0):
		return disk.Preconditionf(
			"a directory volume takes none of the mount flags that are a file system's")
	}

	return nil
}

// capabilityOf returns the part of a capability that a record keeps. The type of the file system is in the
// content of the record.
func capabilityOf(c *csi.VolumeCapability) disk.Capability {
	return disk.Capability{
		Block: c.GetBlock() != nil,
		Mode:  int32(c.GetAccessMode().GetMode()),
		Flags: c.GetMount().GetMountFlags(),
	}
}

// readerModes are the modes without a writer.
var readerModes = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY: true,
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:  true,
}

// singlePathModes are the modes in which a volume is published at one path only (CSI spec, NodePublishVolume:
// the table of calls with another target path).
var singlePathModes = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   true,
}
