package network

import (
	"maps"
	"strings"
	"testing"

	"berth/structs"
	"berth/test/jobtext"
)

func TestNetwork_ReplacesPlaceholders(t *testing.T) {
	want := &structs.NetworkResource{
		Mode:     structs.NetworkModeBridge,
		Hostname: jobtext.Placeholder,
	}
	env := envOf("a", want)
	env.Expand = func(s string) string { return strings.ReplaceAll(s, jobtext.Placeholder, jobtext.Value) }
	f := newFake(t)
	h := New(f.config(), env).(*network)
	err := h.Up(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]bool{"NetworkResource.Hostname": env.Network().Hostname == jobtext.Value}
	want.DNS = jobtext.Fill(&structs.DNSConfig{})
	maps.Copy(replaced, jobtext.Replaced(h.settingsOf(nil)))
	jobtext.Check(t, "client/hooks/network", replaced)
}
