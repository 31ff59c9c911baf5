package assembly

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/client/hooks"
	"berth/structs"
)

// TestMeshHooks_OfEachKindOfTask holds that the token comes first, because the others read it.
func TestMeshHooks_OfEachKindOfTask(t *testing.T) {
	env := &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a1"}}
	p := Parts{Config: &config.Config{}, Consul: &noConsul{}, Logger: hclog.NewNullLogger()}
	for kind, want := range map[string][]string{
		"":                        nil,
		structs.KindConnectNative: {"consul_si_token", "connect_native"},
		structs.KindConnectProxy:  {"consul_si_token", "envoy_bootstrap"},
		structs.KindConnectMesh:   {"consul_si_token", "envoy_bootstrap"},
	} {
		task := &structs.Task{Name: "web"}
		if kind != "" {
			task.Kind = structs.NewTaskKind(kind, "web")
		}
		var got []string
		for _, h := range meshHooks(p, env, task) {
			got = append(got, h.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("a task of the kind %q has the hooks %q, want %q", kind, got, want)
		}
		if without := meshHooks(Parts{}, env, task); len(without) > 0 {
			t.Errorf("a node without Consul has %d hooks for the kind %q", len(without), kind)
		}
	}
}
