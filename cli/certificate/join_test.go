package certificate

import (
	"os"
	"testing"

	"berth/internal/pki"
)

// Machines with one host name get names of their own. The certificate of a server is for that name: the
// servers sign one for each.
func TestIdentify_PrefersTheGivenName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		role     pki.Role
		given    Joining
		id, name string // "" as the ID: a new one
	}{
		"server, nothing":     {pki.RoleServer, Joining{}, host, ""},
		"server, name":        {pki.RoleServer, Joining{Name: "s2"}, "s2", "s2"},
		"server, ID":          {pki.RoleServer, Joining{ID: "s2"}, "s2", ""},
		"server, ID and name": {pki.RoleServer, Joining{ID: "i2", Name: "s2"}, "i2", "s2"},
		"node, nothing":       {pki.RoleNode, Joining{}, "", host},
		"node, name":          {pki.RoleNode, Joining{Name: "n1"}, "", "n1"},
		"node, ID":            {pki.RoleNode, Joining{ID: "i1"}, "i1", host},
	} {
		m := &Machine{role: c.role}
		err := m.identify(c.given)
		if err != nil {
			t.Fatal(err)
		}
		if m.name != c.name || m.id != c.id && (c.id != "" || len(m.id) != 36) {
			t.Errorf("%s: the ID %q, the name %q; expected %q, %q", what, m.id, m.name, c.id, c.name)
		}
	}
}
