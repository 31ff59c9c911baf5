package hostconfig

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/taskconfig"
)

func TestConfine_LimitsCapabilities(t *testing.T) {
	usual := taskconfig.DefaultSettings().AllowCaps
	for _, c := range []struct {
		allowed, add, drop []string
		wantAdd, wantDrop  []string
	}{
		{usual, nil, nil, usual, []string{"all"}},
		{[]string{"chown", "net_admin"}, []string{"net_admin"}, nil,
			[]string{"chown", "net_admin"}, []string{"all"}},
		{usual, nil, []string{"all"}, nil, []string{"all"}},
		{usual, []string{"chown"}, []string{"all"}, []string{"chown"}, []string{"all"}},
		{[]string{"chown", "kill"}, nil, []string{"kill"}, []string{"chown"}, []string{"all"}},
		{[]string{"all"}, []string{"all"}, []string{"sys_admin"}, []string{"all"}, []string{"sys_admin"}},
	} {
		h := &container.HostConfig{}
		cfg := taskconfig.Settings{AllowCaps: c.allowed}
		Confine(cfg.WithDefaults(), h, &taskconfig.Task{CapAdd: c.add, CapDrop: c.drop})
		slices.Sort(h.CapAdd)
		slices.Sort(c.wantAdd)
		if !slices.Equal(h.CapAdd, c.wantAdd) || !slices.Equal(h.CapDrop, c.wantDrop) {
			t.Errorf("%+v: got %v, %v", c, h.CapAdd, h.CapDrop)
		}
	}
}

func TestGrant_FollowsTheMachine(t *testing.T) {
	h := &container.HostConfig{}
	Grant(h, nil)
	if !reflect.DeepEqual(h, &container.HostConfig{Privileged: true}) {
		t.Errorf("with every capability: %+v", h)
	}
	h = &container.HostConfig{}
	Grant(h, []string{"sys_resource"})
	if h.Privileged || h.CapAdd[0] != "all" || h.CapDrop[0] != "sys_resource" || h.MaskedPaths == nil ||
		h.DeviceCgroupRules[0] != "a *:* rwm" || h.Mounts[0].Target != "/dev" {
		t.Errorf("without one: %+v", h)
	}
}

func TestMissingIn_ReadsTheBoundingSet(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tx\nCapBnd:\t000001ffffffffff\n": "",
		"CapBnd:\t000001fffeffffff\n":           "sys_resource",
		"CapBnd:\t000001fffefffffe\n":           "chown sys_resource",
	} {
		got, err := missingIn(status, "40")
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, %v", status, got, err)
		}
	}
	for _, bad := range [][2]string{{"Name:\tx\n", "40"}, {"CapBnd:\txyz\n", "40"}, {"CapBnd:\t0\n", "many"}} {
		if _, err := missingIn(bad[0], bad[1]); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if got, err := missingIn("CapBnd:\t0\n", "1"); err != nil || len(got) != 2 {
		t.Errorf("of an old kernel: %v, %v", got, err)
	}
}

func TestMayLoosen_TakesStrictOptions(t *testing.T) {
	strict := append([]string{"no-new-privileges:true", "apparmor:docker-default"}, strictOptions...)
	if slices.ContainsFunc(strict, mayLoosen) {
		t.Errorf("one of %q counts as loose", strict)
	}
}
