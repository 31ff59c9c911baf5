package report

import (
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/field"
)

// Created checks the sizes in a node's answer about a volume that its plugin made, of at least the given
// bytes.
func Created(r *nodecalls.ClientCSICreateResponse, asked int64) error {
	f := field.New("the node's answer")

	// A volume that is smaller than requested would be registered with a size that users do not get.
	checkSize(f, r.Capacity, asked)
	f.CheckBytes("volume_id", len(r.ExternalID), structs.MaxCSIID)
	checkContext(f, "volume_context", r.Context)
	checkTopologies(f, r.Topologies)
	return f.Err()
}

// Expanded checks the size in a node's answer about a volume that was to grow to the given bytes.
func Expanded(r *nodecalls.ClientCSIExpandResponse, asked int64) error {
	return checkAnswer(r.Capacity, asked)
}

// NodeExpanded checks the size in a node's answer about a volume that was to grow to the given bytes.
func NodeExpanded(r *nodecalls.ClientCSINodeExpandResponse, asked int64) error {
	return checkAnswer(r.Capacity, asked)
}

// checkAnswer checks a size in bytes that answers a request for at least the given ones.
func checkAnswer(n, asked int64) error {
	f := field.New("the node's answer")
	checkSize(f, n, asked)
	return f.Err()
}

// ExpandOutcome checks the sizes in a node's report on a volume of the given plugin.
func ExpandOutcome(o *structs.CSINodeExpandOutcome, plugin string) error {
	f := field.New("volume %q", o.VolumeID)
	f = f.At("plugin %q", plugin).At("NodeExpandVolume")
	checkTotal(f, "the requested size", o.Bytes, limit{structs.MaxVolumeBytes, "bytes"})
	checkSize(f, o.Capacity, o.Bytes)
	return f.Err()
}

// checkSize checks the size that a plugin answered; 0 means that it is not known.
func checkSize(f field.Errors, n, asked int64) {
	checkTotal(f, "capacity_bytes", n, limit{structs.MaxVolumeBytes, "bytes"})
	f.Require(n <= 0 || n >= asked, "capacity_bytes %s must be at least the %s requested",
		structs.FormatBytes(n), structs.FormatBytes(asked))
}

// Attached checks the sizes in a node's answer about a volume that its plugin attached.
func Attached(r *nodecalls.ClientCSIAttachResponse) error {
	f := field.New("the node's answer")
	checkContext(f, "publish_context", r.PublishContext)
	return f.Err()
}

// Listed checks the sizes in a node's answer about the volumes that its plugin lists.
func Listed(r *nodecalls.ClientCSIListResponse) error {
	f := field.New("the node's answer")
	f.CheckBytes("next_token", len(r.NextToken), structs.MaxCSIToken)
	for _, v := range field.FirstOf(f, "volumes", r.Volumes, structs.MaxCSIListed) {
		if v != nil {
			checkListed(f, v)
		}
	}
	return f.Err()
}

// ListedHealth checks a page of the volumes that a plugin reports as ill. The caller cuts the texts.
func ListedHealth(r *nodecalls.ClientCSIListHealthResponse) error {
	f := field.New("the node's answer")
	f.CheckBytes("next_token", len(r.NextToken), structs.MaxCSIToken)
	for _, v := range field.FirstOf(f, "volumes", r.Volumes, structs.MaxCSIListed) {
		if v != nil {
			f.CheckBytes("an ID of a volume", len(v.ExternalID), structs.MaxCSIID)
		}
	}
	return f.Err()
}

// checkListed checks a volume that a plugin lists (CSI spec, ListVolumes).
func checkListed(f field.Errors, v *structs.CSIVolumeExternalStub) {
	for _, id := range []string{v.ExternalID, v.CloneID, v.SnapshotID} {
		f.CheckBytes("an ID of a volume", len(id), structs.MaxCSIID)
	}
	f.CheckBytes("the status of a volume", len(v.Status), structs.MaxErrorText)
	checkContext(f, "volume_context", v.VolumeContext)
	checkTopologies(f, v.Topologies)
	for _, id := range v.PublishedExternalNodeIDs {
		f.CheckBytes("an ID of a node", len(id), structs.MaxCSINodeID)
	}
}

// checkContext checks a context that a plugin answered; it may hold secrets and is not shown.
func checkContext(f field.Errors, name string, m map[string]string) {
	f.CheckBytes(name, structs.PairBytes(m), structs.MaxCSIContext)
}

// VolumeMade checks the facts of a volume that its plugin answers to a creation, and that a user may give
// for an existing one.
func VolumeMade(v *structs.CSIVolume) error {
	f := field.New("volume %q", v.ID)
	checkTotal(f, "capacity", v.Capacity, limit{structs.MaxVolumeBytes, "bytes"})
	checkTopologies(f, v.Topologies)
	return f.Err()
}

// checkTopologies checks the topologies from which a volume is reachable.
func checkTopologies(f field.Errors, topologies []*structs.CSITopology) {
	for i, t := range field.FirstOf(f, "topologies", topologies, structs.MaxCSITopologies) {
		if t == nil {
			f.Addf("topology %d is null", i+1)
			continue
		}
		f.CheckCSIMap("topology", t.Segments)
	}
}
