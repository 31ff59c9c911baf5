package certificate

import (
	"berth/cli/command"
	"berth/internal/peertls"
)

// ModeFlag says whether the agent also takes connections without TLS, at first.
var ModeFlag = command.Flag{
	Name:    "mode",
	Kind:    command.String,
	Value:   "mode",
	Default: string(peertls.ModeRequire),
	Usage:   "require TLS, or prefer it while the agents of a cluster turn it on",
}

// ParseMode reads the value of ModeFlag.
func ParseMode(option, text string) (peertls.Mode, error) {
	mode := peertls.Mode(text)
	if mode != peertls.ModePrefer && mode != peertls.ModeRequire {
		return "", command.BadUsage("%s is %q; expected %s or %s", option, text, peertls.ModePrefer,
			peertls.ModeRequire)
	}
	return mode, nil
}
