package jobspec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"berth/structs"
)

// volumeFile is the body of a volume file.
type volumeFile struct {
	ID           string            `hcl:"id,required"`
	Namespace    string            `hcl:"namespace"`
	Name         string            `hcl:"name"`
	Type         volumeType        `hcl:"type"`
	PluginID     string            `hcl:"plugin_id"`
	Class        string            `hcl:"class"`
	ExternalID   string            `hcl:"external_id"`
	ExternalName string            `hcl:"external_name"`
	SnapshotID   string            `hcl:"snapshot_id"`
	CloneID      string            `hcl:"clone_id"`
	Snapshot     string            `hcl:"snapshot"`
	Clone        string            `hcl:"clone"`
	CapacityMin  byteSize          `hcl:"capacity_min"`
	CapacityMax  byteSize          `hcl:"capacity_max"`
	Capabilities []*capability     `hcl:"capability,block"`
	MountOptions *mountOptions     `hcl:"mount_options,block"`
	Secrets      map[string]string `hcl:"secrets"`
	SecretsFrom  string            `hcl:"secrets_from"`
	Labels       map[string]string `hcl:"labels"`
	Parameters   map[string]string `hcl:"parameters"`
	Mutable      map[string]string `hcl:"mutable_parameters"`
	Context      map[string]string `hcl:"context"`
	Topology     *topologyRequest  `hcl:"topology_request,block"`
	OnNodeLoss   string            `hcl:"on_node_loss"`
	Reclaim      string            `hcl:"reclaim"`
	DeleteAfter  *time.Duration    `hcl:"delete_after"`
	Grow         *grow             `hcl:"grow,block"`
	Trim         *time.Duration    `hcl:"trim"`
}

type capability struct {
	AttachmentMode structs.CSIAttachmentMode `hcl:"attachment_mode"`
	AccessMode     structs.CSIAccessMode     `hcl:"access_mode"`
}

type topologyRequest struct {
	Required  *topologies `hcl:"required,block"`
	Preferred *topologies `hcl:"preferred,block"`
}

type topologies struct {
	Topologies []*topology `hcl:"topology,block"`
}

type topology struct {
	Segments map[string]string `hcl:"segments,required"`
}

// ReadVolume reads a volume file. A file whose name ends in .json is JSON. An error is of kind invalid and
// has a line `file:line,col: message` for each fault. If the faults leave a volume, ReadVolume also returns
// the file: its volume lacks the parts with faults.
func ReadVolume(filename string, src []byte) (*File[*structs.CSIVolume], error) {
	return readFile(filename, src, "volume", (*volumeFile).row)
}

func (f *volumeFile) row() *structs.CSIVolume {
	v := &structs.CSIVolume{
		ID: f.ID, Namespace: f.Namespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:                 f.Name,
			PluginID:             f.PluginID,
			Class:                f.Class,
			Labels:               f.Labels,
			ExternalID:           f.ExternalID,
			ExternalName:         f.ExternalName,
			SnapshotID:           f.SnapshotID,
			CloneID:              cmp.Or(f.CloneID, f.Clone),
			Snapshot:             f.Snapshot,
			RequestedCapacityMin: int64(f.CapacityMin),
			RequestedCapacityMax: int64(f.CapacityMax),
			MountOptions:         (*structs.CSIMountOptions)(f.MountOptions),
			Secrets:              f.Secrets,
			SecretsFrom:          f.SecretsFrom,
			Parameters:           f.Parameters,
			MutableParameters:    f.Mutable,
			Context:              f.Context,
			OnNodeLoss:           f.OnNodeLoss,
			Reclaim:              f.Reclaim,
			DeleteAfter:          f.DeleteAfter,
			Grow:                 f.Grow.policy(),
			Trim:                 f.Trim,
		},
	}

	for _, c := range f.Capabilities {
		capability := (*structs.CSIVolumeCapability)(c)
		v.RequestedCapabilities = append(v.RequestedCapabilities, capability)
	}

	if f.Topology != nil {
		v.RequestedTopologies = &structs.CSITopologyRequest{
			Required:  f.Topology.Required.rows(),
			Preferred: f.Topology.Preferred.rows(),
		}
	}

	return v
}

// rows converts the topologies, none for an absent block.
func (t *topologies) rows() []*structs.CSITopology {
	var out []*structs.CSITopology
	if t != nil {
		for _, s := range t.Topologies {
			out = append(out, (*structs.CSITopology)(s))
		}
	}
	return out
}

// volumeType is the type of a volume, of which berth has one.
type volumeType string

// Expected describes the type.
func (*volumeType) Expected() string { return strconv.Quote(structs.VolumeTypeCSI) }

// UnmarshalText reads the type.
func (t *volumeType) UnmarshalText(text []byte) error {
	if string(text) == structs.VolumeTypeHost {
		return errors.New("a host volume is made by berth volume create; a directory that exists on a node is a " +
			"host_volume block in the configuration of the node")
	}
	if len(text) > 0 && string(text) != structs.VolumeTypeCSI {
		return fmt.Errorf("berth does not support volumes of type %.40q; expected %s", text, t.Expected())
	}
	*t = volumeType(text)
	return nil
}

// byteSize is a number of bytes, with or without a unit ("64MiB", "1.5 GB").
type byteSize int64

// Expected describes the syntax of a size.
func (*byteSize) Expected() string { return `a size such as "64MiB"` }

// UnmarshalText reads a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(strings.TrimSpace(string(text)))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%.40q is not a size; expected %s", text, b.Expected())
	}
	*b = byteSize(n)
	return nil
}
