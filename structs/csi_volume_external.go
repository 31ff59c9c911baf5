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
}

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
