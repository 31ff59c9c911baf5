package structs

// CSIVolumeExternal lists volumes as the plugin knows them, page by page.
var CSIVolumeExternal = Read[CSIVolumeExternalRequest, CSIVolumeExternalResponse]("CSIVolume.ListExternal")

// CSIVolumeExternalRequest names the plugin.
type CSIVolumeExternalRequest struct {
	PluginID string
	Secrets  Secrets `codec:"Secrets"`
	QueryOptions
}

// CSIVolumeExternalStub is a volume as its plugin lists it (CSI spec, ListVolumes).
type CSIVolumeExternalStub struct {
	ExternalID               string
	CapacityBytes            int64
	VolumeContext            map[string]string
	CloneID                  string
	SnapshotID               string
	PublishedExternalNodeIDs []string
	// the plugin reports where its volumes are attached: an empty list means nowhere
	PublishedNodesKnown bool
	IsAbnormal          bool
	Status              string
	// Topologies are the places from which it is reachable; none: from everywhere, or the plugin does not
	// tell.
	Topologies []*CSITopology `json:",omitempty" codec:",omitempty"`
	// Record is one of the constants below, "" in the answer of a plugin and of a server before level 2
	Record string `json:",omitempty" codec:",omitempty"`
}

// The values of CSIVolumeExternalStub.Record.
const (
	ExternalRecorded = "recorded" // the row of a volume that the caller may read has it
	ExternalStray    = "stray"    // no row of any namespace has it
	// ExternalUnknown: the caller may not read all volumes, or the plugin makes one whose ID no row has yet.
	ExternalUnknown = "unknown"
)

// CSIVolumeExternalResponse has one page. NextToken continues it. Warnings names the missing parts of the
// plugin's storage and the reasons.
type CSIVolumeExternalResponse struct {
	Volumes   []*CSIVolumeExternalStub
	NextToken string
	Warnings  []string `json:",omitempty"`
	QueryMeta
}

// Bytes returns the size of the texts of the volume.
func (v *CSIVolumeExternalStub) Bytes() int {
	n := len(v.ExternalID) + len(v.CloneID) + len(v.SnapshotID) +
		len(v.Status) + PairBytes(v.VolumeContext)
	for _, id := range v.PublishedExternalNodeIDs {
		n += len(id)
	}
	return n
}
