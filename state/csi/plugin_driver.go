package csi

import (
	"fmt"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// A plugin's ID belongs to one driver: the Provider of the plugin's row. Volume IDs are unique only within a
// driver, so a call to another driver could reach another volume, or that driver could confirm the detach of
// an unknown volume. An instance of another driver is stored as unhealthy, which excludes it from every count
// and every choice. The ID is free again when no instance of the driver, no volume and no attachment is left.

// checkDriver completes a report that is about to be stored. It returns the plugin's row, renewed when the
// report is healthy and its driver takes over an ID that is free.
func checkDriver(
	tx *mvcc.WriteTx,
	p *structs.CSIPluginRow,
	i *structs.CSIPluginInstance,
) *structs.CSIPluginRow {
	i.OtherDriver = false

	// Nothing uses an unhealthy instance, so it need not have the driver of the plugin.
	if !i.Healthy || i.IsDriver(p.Provider) {
		return p
	}

	if holdsVolumes(tx, p.ID) || reportedDriver(tx, p, i) {
		i.Healthy = false
		i.OtherDriver = true
		i.HealthDescription = fmt.Sprintf("not used: its driver is %q, plugin %q belongs to driver %q",
			i.Provider, p.ID, p.Provider)
		return p
	}

	p = &structs.CSIPluginRow{ID: p.ID}
	schema.Plugins.Put(tx, p)
	return p
}

// holdsVolumes reports whether a volume or an attachment ties the plugin's ID to its driver.
func holdsVolumes(tx mvcc.Reader, id string) bool {
	return schema.VolumesByPlugin.First(tx, id) != nil ||
		schema.AttachmentsByExternal.First(tx, id) != nil
}

// reportedDriver reports whether a node has an instance of the plugin's driver, other than the one given.
func reportedDriver(tx mvcc.Reader, p *structs.CSIPluginRow, other *structs.CSIPluginInstance) bool {
	for i := range InstancesByPlugin(tx, p.ID) {
		same := other != nil && i.NodeID == other.NodeID &&
			i.Kind == other.Kind
		if i.Provider == p.Provider && !same {
			return true
		}
	}
	return false
}

// rebindDriver gives a plugin's ID to another driver if no instance of the present driver is left. The other
// driver names the present one as its former name. Without volumes and attachments it may be any driver. now
// is UnixNano.
func rebindDriver(tx *mvcc.WriteTx, id string, now int64) {
	p := Plugin(tx, id)
	if p == nil || p.Provider == "" ||
		reportedDriver(tx, p, nil) {
		return
	}

	successor := successorOf(tx, p)

	// The ID stays with its driver, which may come back.
	if successor == nil {
		return
	}

	// The properties of a driver under its new name are known. Another driver begins without any.
	next := &structs.CSIPluginRow{ID: p.ID}
	if successor.FormerProvider == p.Provider {
		next = p.Copy()
	}

	next.Provider = successor.Provider
	next.Version = successor.ProviderVersion
	schema.Plugins.Put(tx, next)
	restoreInstances(tx, id, now)
}

// successorOf returns the instance whose driver gets the plugin's ID next, nil for none.
func successorOf(tx mvcc.Reader, p *structs.CSIPluginRow) *structs.CSIPluginInstance {
	free := !holdsVolumes(tx, p.ID)
	for i := range InstancesByPlugin(tx, p.ID) {
		// With OtherDriver its node has reported it healthy: see checkDriver.
		usable := i.Provider != "" && (i.Healthy || i.OtherDriver)
		if usable &&
			(free || i.FormerProvider == p.Provider) {
			return i
		}
	}
	return nil
}

// restoreInstances stores the reports of other drivers again as their nodes made them.
func restoreInstances(tx *mvcc.WriteTx, id string, now int64) {
	for _, old := range slices.Collect(InstancesByPlugin(tx, id)) {
		if !old.OtherDriver {
			continue
		}

		i := *old
		i.Healthy = true
		i.HealthDescription = ""

		// Its node has reported it healthy, and may have gone down since.
		if schema.Nodes.Get(tx, i.NodeID).Lost() {
			markInstanceDown(&i)
		}

		storeInstance(tx, old, &i, now)
	}
}
