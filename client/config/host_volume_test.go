package config

import (
	"strings"
	"testing"
)

// One directory under two names would have two writers.
func TestHostVolumes_AreApart(t *testing.T) {
	for other, apart := range map[string]bool{
		"/srv/data":     false,
		"/srv/data/":    false,
		"/srv/data/db":  false,
		"/srv":          false,
		"/":             false,
		"/srv/database": true,
		"/srv/other":    true,
	} {
		c := DefaultConfig()
		c.HostVolumes = []*HostVolume{{Name: "a", Path: "/srv/data"}, {Name: "b", Path: other}}
		faults := c.checkHostVolumes()
		if got := len(faults) == 0; got != apart {
			t.Errorf("%s: got %v", other, faults)
		}
		if !apart && !strings.Contains(faults[0].Error(), `client.host_volume "b": path`) {
			t.Errorf("%s: got %v", other, faults)
		}
	}
}
