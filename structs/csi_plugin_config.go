package structs

import "time"

// CSIPluginConfig is a task's `csi_plugin {}`: the task runs a CSI plugin.
type CSIPluginConfig struct {
	ID       string
	Type     string // node, controller, monolith
	MountDir string // where the task finds its socket directory, default /csi
	// where the task sees the staging and publish directories, default /local/csi
	StagePublishBaseDir string
	HealthTimeout       time.Duration // default 30s
	// how long a plugin that was healthy may answer no probe; 0 is DefaultHangTimeout
	HangTimeout    time.Duration
	FormerProvider string // the driver's name before its vendor renamed it (CSI spec, GetPluginInfo)
	// Tokens are signed identities of the allocation that uses a volume, which NodePublishVolume gets. They are
	// in the place TokensIn, which is "" without tokens.
	Tokens   []*CSIToken `json:",omitempty" codec:",omitempty"`
	TokensIn string      `json:",omitempty" codec:",omitempty"`
	// RequiresRepublish: NodePublishVolume is repeated with other tokens at half of their life.
	RequiresRepublish bool `json:",omitempty" codec:",omitempty"`
}

// CSIToken is a `token {}` of a csi_plugin block.
type CSIToken struct {
	Audience string        `json:",omitempty" codec:",omitempty"`
	TTL      time.Duration `json:",omitempty" codec:",omitempty"` // default DefaultIdentityTTL
}

// The places of tokens in a call of a plugin.
const (
	TokensInContext = "volume_context"
	TokensInSecrets = "secrets"
)

// The types of a csi_plugin block.
const (
	CSIPluginNode       = "node"
	CSIPluginController = "controller"
	CSIPluginMonolith   = "monolith"
)

// Kinds returns the halves that the plugin task serves.
func (c *CSIPluginConfig) Kinds() []CSIKind {
	switch c.Type {
	case CSIPluginNode:
		return []CSIKind{CSIKindNode}
	case CSIPluginController:
		return []CSIKind{CSIKindController}
	}
	return []CSIKind{CSIKindController, CSIKindNode}
}
