package idtoken

import (
	"fmt"
	"regexp"
	"time"

	"berth/structs"
)

// LoginSettings are a block such as `default_identity {}`. Without an audience the block is off.
type LoginSettings struct {
	Audience []string      `hcl:"aud"`
	TTL      time.Duration `hcl:"ttl"`
	Env      bool          `hcl:"env"`  // the task has the token in its environment
	File     bool          `hcl:"file"` // the task has the token in its secrets
}

// Enabled reports whether workloads get the identity.
func (s *LoginSettings) Enabled() bool { return len(s.Audience) > 0 }

// Lifetime returns the time to live of a token.
func (s *LoginSettings) Lifetime() time.Duration {
	if s.TTL == 0 {
		return structs.DefaultIdentityTTL
	}
	return s.TTL
}

// Faults lists the faults of the settings. Each begins with the path of its setting below block.
func (s *LoginSettings) Faults(block string) (faults []error) {
	bad := func(format string, args ...any) {
		faults = append(faults, structs.Invalidf("%s.%w", block, fmt.Errorf(format, args...)))
	}

	if len(s.Audience) > structs.MaxAudiences {
		bad("aud: there are %d; at most %d are allowed", len(s.Audience), structs.MaxAudiences)
	}

	for _, aud := range s.Audience {
		if aud == "" || len(aud) > structs.MaxName {
			bad("aud: an audience must have 1 to %d bytes", structs.MaxName)
		}
	}

	// Without an audience the block would have no effect, which nobody would see.
	if !s.Enabled() && (s.TTL != 0 || s.Env || s.File) {
		bad("aud: it is empty; name the audience that the other side expects")
	}

	const shortest, longest = structs.MinIdentityTTL, structs.MaxIdentityTTL
	if s.TTL != 0 && (s.TTL < shortest || s.TTL > longest) {
		bad("ttl: %s is not within %s to %s", s.TTL, shortest, longest)
	}

	return faults
}

// maxMethodName bounds the name of an auth method of Consul, in bytes.
const maxMethodName = 128

var methodName = regexp.MustCompile(`^[\w-]+$`)

// CheckLoginMethod returns the fault of a setting with the name of an auth method of Consul, nil if it has
// none.
func CheckLoginMethod(setting, name string) error {
	if len(name) <= maxMethodName && methodName.MatchString(name) {
		return nil
	}
	return structs.Invalidf("%s: %q is no name of an auth method", setting, structs.Cut(name, structs.MaxQuoted))
}

// Redact describes the settings, by their names in the dialect. They have no secrets.
func (s *LoginSettings) Redact() map[string]any {
	return map[string]any{
		"Audience": s.Audience,
		"TTL":      s.TTL,
		"Env":      s.Env,
		"File":     s.File,
	}
}
