package jobspec

import (
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// classFile is the body of the file of a volume class.
type classFile struct {
	Name         string            `hcl:"name,required"`
	Description  string            `hcl:"description"`
	PluginID     string            `hcl:"plugin_id,required"`
	Default      bool              `hcl:"default"`
	Parameters   map[string]string `hcl:"parameters"`
	Mutable      map[string]string `hcl:"mutable_parameters"`
	SecretsFrom  string            `hcl:"secrets_from"`
	MountOptions *mountOptions     `hcl:"mount_options,block"`
	Topologies   []*topology       `hcl:"allowed_topology,block"`
	OnNodeLoss   string            `hcl:"on_node_loss"`
	Reclaim      string            `hcl:"reclaim"`
	DeleteAfter  *time.Duration    `hcl:"delete_after"`
	Binding      string            `hcl:"binding"`
	QuotaWeight  int               `hcl:"quota_weight"`
	Grow         *grow             `hcl:"grow,block"`
	Trim         *time.Duration    `hcl:"trim"`
}

// ReadClass reads the file of a volume class in HCL. Its results are like ReadVolume's.
func ReadClass(filename string, src []byte) (*File[*storage.VolumeClass], error) {
	return readFile(filename, src, "class", (*classFile).row)
}

// row converts the file. A class has no block around it.
func (f *classFile) row() *storage.VolumeClass {
	c := &storage.VolumeClass{
		Name:         f.Name,
		Description:  f.Description,
		PluginID:     f.PluginID,
		Default:      f.Default,
		Parameters:   f.Parameters,
		SecretsFrom:  f.SecretsFrom,
		MountOptions: (*structs.CSIMountOptions)(f.MountOptions),
		OnNodeLoss:   f.OnNodeLoss,
		Reclaim:      f.Reclaim,
		DeleteAfter:  f.DeleteAfter,
		Binding:      f.Binding,
		QuotaWeight:  f.QuotaWeight,
		Grow:         f.Grow.policy(),
		Trim:         f.Trim,

		MutableParameters: f.Mutable,
	}
	for _, t := range f.Topologies {
		c.AllowedTopologies = append(c.AllowedTopologies, (*structs.CSITopology)(t))
	}
	c.Canonicalize()
	return c
}
