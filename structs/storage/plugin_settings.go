package storage

import (
	"cmp"
	"time"

	"berth/structs"
)

// PluginSettings is the row with an operator's settings of a plugin. Key: ID. It is there only while a
// setting differs from its default, and it outlives the plugin's instances and volumes.
type PluginSettings struct {
	ID string // of the plugin
	// OnNodeLoss is the rule for the volumes that have none of their own: LossHold, LossFence or LossLease;
	// "" for LossHold.
	OnNodeLoss string
	// SecretsFrom is the path of the variable with the secrets of the volumes that have none of their own, ""
	// for none. {namespace} and {id} in it stand for the volume's.
	SecretsFrom string `json:",omitempty"`
	PluginCalls
	PluginDrift
	// Inline is InlineAllow or InlineDeny; "" for InlineDeny.
	Inline string `json:",omitempty" codec:",omitempty"`
	structs.Indexes
}

// AreDefaults reports whether no setting differs from its default.
func (s *PluginSettings) AreDefaults() bool {
	return cmp.Or(s.OnNodeLoss, structs.LossHold) == structs.LossHold &&
		s.SecretsFrom == "" &&
		s.PluginCalls == PluginCalls{} &&
		s.PluginDrift == PluginDrift{} &&
		!s.AllowsInline()
}

// The values of PluginSettings.Inline. An inline volume has the parameters that the job says, and a driver
// that does not know inline volumes may mount with them what it is told, past all claims and rights.
const (
	InlineAllow = "allow" // jobs may have inline volumes of the plugin
	InlineDeny  = "deny"
)

// AllowsInline reports whether jobs may have inline volumes of the plugin.
func (s *PluginSettings) AllowsInline() bool { return s.Inline == InlineAllow }

// InlineDenied returns the reason for which jobs may have no inline volumes of the plugin, "" if they may.
func (s *PluginSettings) InlineDenied() string {
	if s.AllowsInline() {
		return ""
	}
	return "CSI plugin " + s.ID + " may make no inline volumes; an operator allows it with: " +
		"berth plugin config -inline allow " + s.ID
}

// PluginCalls are the settings for the calls of a plugin. 0 is the default of each.
type PluginCalls struct {
	// CallsInFlight is the most calls of the plugin that the leader has in flight at once.
	CallsInFlight int `json:",omitempty" codec:",omitempty"`
	// CallTimeout ends a call of a kind that has no timeout of its own.
	CallTimeout time.Duration `json:",omitempty" codec:",omitempty"`
	// ControllerTimeout ends a call that creates, deletes, attaches, detaches or expands a volume, or that asks
	// a controller about volumes.
	ControllerTimeout time.Duration `json:",omitempty" codec:",omitempty"`
	// NodeTimeout ends a call that stages, publishes, unpublishes, unstages or expands a volume on its node.
	NodeTimeout time.Duration `json:",omitempty" codec:",omitempty"`
}

// The bounds of PluginCalls. A call must have ended before its outcome counts as settled, which is
// structs.CallSettles after it was sent: the longest timeout leaves a minute for the way to the node.
const (
	DefaultCallsInFlight = 8
	MaxCallsInFlight     = 64
	MinCallTimeout       = 10 * time.Second
	MaxCallTimeout       = structs.CallSettles - time.Minute
)

// InFlight returns the most calls of the plugin that the leader has in flight at once. None is the number
// without a setting.
func (c PluginCalls) InFlight(none int) int { return cmp.Or(c.CallsInFlight, none) }

// OfController returns the timeout of a call of the controller, 0 without a setting.
func (c PluginCalls) OfController() time.Duration { return cmp.Or(c.ControllerTimeout, c.CallTimeout) }

// OfNode returns the timeout of a call of the node half, 0 without a setting.
func (c PluginCalls) OfNode() time.Duration { return cmp.Or(c.NodeTimeout, c.CallTimeout) }

// PluginDrift are the settings for the comparison of volumes with the storage.
type PluginDrift struct {
	// Drift is DriftReport, DriftRepair or DriftOff; "" for DriftReport.
	Drift string `json:",omitempty" codec:",omitempty"`
	// DriftInterval is the time between two comparisons, 0 for DefaultDriftInterval.
	DriftInterval time.Duration `json:",omitempty" codec:",omitempty"`
}

// The values of PluginDrift.Drift.
const (
	DriftReport = "report" // differences are shown
	DriftRepair = "repair" // differences of attachments are shown and repaired
	DriftOff    = "off"    // the plugin is not asked
)

// The bounds of PluginDrift.DriftInterval.
const (
	DefaultDriftInterval = 10 * time.Minute
	MinDriftInterval     = time.Minute
	MaxDriftInterval     = 24 * time.Hour
)

// Interval returns the time between two comparisons.
func (d PluginDrift) Interval() time.Duration { return cmp.Or(d.DriftInterval, DefaultDriftInterval) }

// PluginSettingsGet reads the settings of a plugin, which need not exist.
var PluginSettingsGet = structs.Read[structs.CSIPluginGetRequest, PluginSettingsResponse](
	"CSIPlugin.GetConfig")

// PluginSettingsResponse has the settings. Their indexes are 0 while all are the defaults.
type PluginSettingsResponse struct {
	Config *PluginSettings
	structs.QueryMeta
}

// PluginSettingsSet replaces the settings of a plugin, which need not exist yet.
var PluginSettingsSet = structs.Write[PluginSettingsRequest, structs.Empty]("CSIPlugin.SetConfig")

// PluginSettingsRequest has all settings of a plugin: see PluginSettings.
type PluginSettingsRequest struct {
	ID          string
	OnNodeLoss  string
	SecretsFrom string
	PluginCalls
	PluginDrift
	Inline string `json:",omitempty" codec:",omitempty"`
	structs.WriteOptions
}

// CopyTo sets the settings of a request. It leaves the plugin as it is.
func (s *PluginSettings) CopyTo(req *PluginSettingsRequest) {
	req.OnNodeLoss = s.OnNodeLoss
	req.SecretsFrom = s.SecretsFrom
	req.PluginCalls = s.PluginCalls
	req.PluginDrift = s.PluginDrift
	req.Inline = s.Inline
}
