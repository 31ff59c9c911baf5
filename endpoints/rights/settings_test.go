package rights_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/rights"
	"berth/structs/access"
)

// Access control is for the HTTP API. Without certificates the port of RPC is a way around it.
func TestSettings_WarnOfAnOpenPort(t *testing.T) {
	for _, c := range []struct {
		settings rights.Settings
		secured  bool
		warns    bool
	}{
		{rights.Settings{Enabled: true, Mode: access.ModeEnforce}, false, true},
		{rights.Settings{Enabled: true, Mode: access.ModeEnforce}, true, false},
		{rights.Settings{Enabled: true, Mode: access.ModeLog}, false, false},
		{rights.DefaultSettings(), false, false},
	} {
		var log strings.Builder
		c.settings.NewGate(hclog.New(&hclog.LoggerOptions{Output: &log}), c.secured, "", nil)
		if strings.Contains(log.String(), "RPC port") != c.warns {
			t.Errorf("%+v, with certificates: %t: the log is %q, want a warning: %t",
				c.settings, c.secured, log.String(), c.warns)
		}
	}
}
