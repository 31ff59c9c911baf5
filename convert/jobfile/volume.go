package jobfile

import (
	"math/bits"
	"strconv"

	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// SizeText writes a number of bytes with the largest unit of which it is a multiple: "10GiB".
func SizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	if n <= 0 {
		return strconv.FormatInt(n, 10)
	}
	unit := min(bits.TrailingZeros64(uint64(n))/10, len(units)-1)
	return strconv.FormatInt(n>>(10*unit), 10) + units[unit]
}

// Volume returns the file by which a volume that exists is registered. It has no secrets.
func Volume(v *structs.CSIVolume, notes []string) []byte {
	var w writer
	w.comments(notes)
	w.set("id", v.ID)
	w.put("name", v.Name)
	w.put("namespace", v.Namespace, structs.DefaultNamespace)
	w.set("type", structs.VolumeTypeCSI)
	w.set("plugin_id", v.PluginID)
	w.put("external_id", v.ExternalID)
	w.capacity(v.RequestedCapacityMin, v.RequestedCapacityMax)
	w.capabilities(v.RequestedCapabilities)
	if o := v.MountOptions; o != nil && len(o.FSType)+len(o.MountFlags) > 0 {
		w.mountOptions(o)
	}
	w.pairs("parameters", v.Parameters)
	w.pairs("context", v.Context)
	if t := v.RequestedTopologies; t != nil && len(t.Required)+len(t.Preferred) > 0 {
		w.block("topology_request", func() {
			w.topologies("required", t.Required)
			w.topologies("preferred", t.Preferred)
		})
	}
	return w.bytes()
}

// HostVolume returns the file by which a dynamic host volume is created.
func HostVolume(v *storage.DynamicHostVolume, notes []string) []byte {
	var w writer
	w.comments(notes)
	w.set("name", v.Name)
	w.put("namespace", v.Namespace, structs.DefaultNamespace)
	w.set("type", structs.VolumeTypeHost)
	w.put("plugin_id", v.PluginID)
	w.put("node_pool", v.NodePool, structs.DefaultNodePool)
	w.capacity(v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
	w.capabilities(v.RequestedCapabilities)
	for _, c := range v.Constraints {
		if c == nil {
			continue
		}
		w.block("constraint", func() {
			w.set("attribute", c.LTarget)
			w.put("operator", c.Operand, "=")
			w.put("value", c.RTarget)
		})
	}
	w.put("parameters", v.Parameters)
	return w.bytes()
}

// capacity writes bounds in bytes, of which 0 is none.
func (w *writer) capacity(least, most int64) {
	if least > 0 {
		w.set("capacity_min", SizeText(least))
	}
	if most > 0 {
		w.set("capacity_max", SizeText(most))
	}
}

func (w *writer) capabilities(list []*structs.CSIVolumeCapability) {
	for _, c := range list {
		if c == nil {
			continue
		}
		w.block("capability", func() {
			w.set("access_mode", string(c.AccessMode))
			w.set("attachment_mode", string(c.AttachmentMode))
		})
	}
}

func (w *writer) topologies(kind string, list []*structs.CSITopology) {
	if len(list) == 0 {
		return
	}
	w.block(kind, func() {
		for _, t := range list {
			w.block("topology", func() { w.pairs("segments", t.Segments) })
		}
	})
}

// Namespace returns the file of a namespace.
func Namespace(n *cluster.Namespace) []byte {
	var w writer
	w.set("name", n.Name)
	w.put("description", n.Description)
	w.put("quota", n.Quota)
	w.pairs("meta", n.Meta)
	if c := n.Capabilities; c != nil {
		w.block("capabilities", func() {
			w.put("enabled_task_drivers", c.EnabledTaskDrivers)
			w.put("disabled_task_drivers", c.DisabledTaskDrivers)
		})
	}
	return w.bytes()
}
