package volumes

import (
	"context"
	"time"

	"berth/client/csi/registry"
	"berth/csi"
	"berth/internal/backoff"
	"berth/structs"
)

// Use is one allocation's use of a volume, with all arguments of the plugin calls.
type Use struct {
	VolumeKey
	AllocID        string
	PluginID       string
	Provider       string // the driver that owns the plugin's ID, "" if that is not known
	ExternalID     string
	AccessMode     structs.CSIAccessMode
	AttachmentMode structs.CSIAttachmentMode
	MountOptions   *structs.CSIMountOptions // of the volume, with the job's over it
	MountGroup     string                   // a gid for plugins that mount for a group, "" for none
	ReadOnly       bool
	Inline         bool // the plugin makes it: it is published only, and no server knows it
	VolumeContext  map[string]string
	PublishContext structs.Secrets
	ExternalNodeID string // the plugin's ID of this node, where the volume is attached
	Secrets        structs.Secrets
	// Grant is the index of the claim's grant. A mount under an earlier grant is not trusted.
	Grant uint64
	// ExpandBytes is the size to which the node has to expand the volume's file system or device, 0 for none.
	ExpandBytes int64
	// Expanded, if not nil, takes the result of the expansion, without a lock. A failure does not stop Up.
	Expanded func(ctx context.Context, capacity int64, err error)
	// Timeout ends each call of the plugin, 0 without a setting. The calls that take the volume back have it
	// as well.
	Timeout time.Duration
	// Trim is the time between two trims of the file system, 0 for none.
	Trim time.Duration
	// Confirm, if not nil, is called right before the plugin calls that mount the volume. It returns an error
	// unless the claim still holds: earlier steps may have taken long.
	Confirm func(ctx context.Context) error
	// BeforePublish, if not nil, adds to the arguments of NodePublishVolume what an instance of the
	// plugin asks for. It changes no map in its place.
	BeforePublish func(ctx context.Context, plugin *registry.Instance, args *csi.Use) error
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut. It ends
	// the pause after a Confirm or a BeforePublish that has failed.
	ServersBack *backoff.Recovery
}

func (u *Use) forPlugin() csi.Use {
	return csi.Use{
		VolumeID:       u.ExternalID,
		AccessMode:     u.AccessMode,
		AttachmentMode: u.AttachmentMode,
		MountOptions:   u.MountOptions,
		MountGroup:     u.MountGroup,
		PublishContext: u.PublishContext,
		VolumeContext:  u.VolumeContext,
		Secrets:        u.Secrets,
	}
}

// call returns the call of an RPC for a path of the volume.
func (u *Use) call(rpc, path string) Call {
	return Call{
		PluginID: u.PluginID,
		Volume:   u.ExternalID,
		RPC:      rpc,
		Where:    path,
		Timeout:  u.Timeout,
	}
}
