package rights

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
	"berth/structs/access"
)

// Settings are the acl block of a server.
type Settings struct {
	Enabled bool `hcl:"enabled"`
	// Mode is enforce, or log: every request passes, and the log has what enforce would deny.
	Mode string `hcl:"mode"`
	// KeepDeleted is how long the servers remember that a token was deleted. The restore of an archive that is
	// not older does not bring the token back.
	KeepDeleted time.Duration `hcl:"keep_deleted"`
}

const (
	defaultKeepDeleted = 90 * 24 * time.Hour
	longestKeepDeleted = 10 * 365 * 24 * time.Hour
)

// DefaultSettings returns the settings of a server without the block.
func DefaultSettings() Settings {
	return Settings{Mode: access.ModeEnforce, KeepDeleted: defaultKeepDeleted}
}

// OwnMode returns the mode that the settings ask for: the cluster may have a stricter one.
func (s *Settings) OwnMode() string {
	if !s.Enabled {
		return access.ModeOff
	}
	return s.Mode
}

// NewGate returns the gate of a server with the settings. stored returns the mode of the cluster. It warns
// if the port of RPC is open to callers without a certificate: access control is for the HTTP API alone.
// issuer is the one that identities of workloads may name.
func (s *Settings) NewGate(logger hclog.Logger, requiresTLS bool, issuer string, stored func() string) *Gate {
	if s.OwnMode() == access.ModeEnforce && !requiresTLS {
		logger.Warn("access control does not protect the RPC port: whoever reaches it counts as a machine of the " +
			"cluster; set tls { mode = \"require\" }")
	}
	return NewGate(Config{
		Mode:   s.OwnMode(),
		Stored: stored,
		Issuer: issuer,
		Now:    time.Now,
		Logger: logger.Named("acl"),
	})
}

// Ignored are the settings of the dialect without an effect.
func (Settings) Ignored() map[string]string {
	const cached = "each request reads the rows of its token, so nothing is cached that could be old"
	return map[string]string{
		"token_ttl":  cached,
		"policy_ttl": cached,
		"role_ttl":   cached,
	}
}

// Rejected are the settings of the dialect that berth does not have.
func (Settings) Rejected() map[string]string {
	const regions = "there is one region; leave it out"
	return map[string]string{
		"replication_token":        regions,
		"token_min_expiration_ttl": "a token has the end that its maker gives it; leave it out",
		"token_max_expiration_ttl": "a token lives for at most ten years; leave it out",
	}
}

// Validate returns the first fault of the settings.
func (s *Settings) Validate() error {
	if s.Mode != access.ModeEnforce && s.Mode != access.ModeLog {
		return structs.Invalidf("acl.mode is %q; expected %s or %s", structs.Cut(s.Mode, structs.MaxQuoted),
			access.ModeEnforce, access.ModeLog)
	}
	if s.KeepDeleted < time.Hour || s.KeepDeleted > longestKeepDeleted {
		return structs.Invalidf("acl.keep_deleted is %s; expected 1h to %s", s.KeepDeleted, longestKeepDeleted)
	}
	return nil
}
