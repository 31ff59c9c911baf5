package structs

import "time"

// CSIPluginSettings is the row with an operator's settings for the volumes of a plugin. Key: ID. It is there
// only while a setting differs from its default, and it outlives the plugin's instances and volumes.
type CSIPluginSettings struct {
	ID string // of the plugin
	// OnNodeLoss is the rule for the volumes that have none of their own: LossHold, LossFence or LossLease;
	// "" for LossHold.
	OnNodeLoss string
	// SecretsFrom is the path of the variable with the secrets of the volumes that have none of their own, ""
	// for none. {namespace} and {id} in it stand for those of the volume.
	SecretsFrom string `json:",omitempty"`
	Indexes
}

// CSIPluginSettingsGet reads the settings of a plugin, which need not exist.
var CSIPluginSettingsGet = Read[CSIPluginGetRequest, CSIPluginSettingsResponse]("CSIPlugin.GetConfig")

// CSIPluginSettingsResponse has the settings. Their indexes are 0 while all are the defaults.
type CSIPluginSettingsResponse struct {
	Config *CSIPluginSettings
	QueryMeta
}

// CSIPluginSettingsSet replaces the settings of a plugin, which need not exist yet.
var CSIPluginSettingsSet = Write[CSIPluginSettingsRequest, Empty]("CSIPlugin.SetConfig")

// CSIPluginSettingsRequest has all settings of a plugin: see CSIPluginSettings.
type CSIPluginSettingsRequest struct {
	ID           string `level:"2"`
	OnNodeLoss   string `level:"2"`
	SecretsFrom  string `level:"2"`
	WriteOptions `level:"2"`
}

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
	Tokens   []*CSIToken `json:",omitempty" codec:",omitempty" level:"2"`
	TokensIn string      `json:",omitempty" codec:",omitempty" level:"2"`
	// RequiresRepublish: NodePublishVolume is repeated with other tokens at half of their life.
	RequiresRepublish bool `json:",omitempty" codec:",omitempty" level:"2"`
}

// CSIToken is a `token {}` of a csi_plugin block.
type CSIToken struct {
	Audience string        `json:",omitempty" codec:",omitempty" level:"2"`
	TTL      time.Duration `json:",omitempty" codec:",omitempty" level:"2"` // default DefaultIdentityTTL
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
