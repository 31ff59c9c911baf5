package cgroups

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRealGroup_OpensOnlyItsDevices lets a process open each of three device files for reading and for
// writing.
func TestRealGroup_OpensOnlyItsDevices(t *testing.T) {
	full, err := RuleOf("/dev/full", "r")
	if err != nil {
		t.Fatal(err)
	}
	null, err := RuleOf("/dev/null", "rw")
	if err != nil {
		t.Fatal(err)
	}
	g := realGroup(t, Limits{Devices: []DeviceRule{full, null}})
	cmd := exec.Command("sh", "-c", `
		for f in null full zero; do
			(exec 3</dev/$f) 2>/dev/null && echo "$f r"
			(exec 3>/dev/$f) 2>/dev/null && echo "$f w"
		done; true`)
	var out strings.Builder
	cmd.Stdout = &out
	startInGroup(t, cmd, g)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "null r\nnull w\nfull r\n"; got != want {
		t.Errorf("the process opened %q, want %q", got, want)
	}
}

func TestRuleOf_RefusesOtherFiles(t *testing.T) {
	for name, c := range map[string][2]string{
		"a directory":        {"/dev", "rw"},
		"a missing file":     {"/dev/not-there", "rw"},
		"no permission":      {"/dev/null", ""},
		"another permission": {"/dev/null", "rx"},
	} {
		if rule, err := RuleOf(c[0], c[1]); err == nil {
			t.Errorf("%s: got the rule %+v, want an error", name, rule)
		}
	}
}

// A kernel or a container may refuse the program that restricts devices, here because the directory is no
// cgroup. Tasks run then, and the reason is known.
func TestProbe_NamesDevicesThatAreNotRestricted(t *testing.T) {
	m := &Machine{V2: t.TempDir(), Missing: map[string]string{}}
	if err := m.Probe("berth"); err != nil {
		t.Fatal(err)
	}
	if m.Missing[Devices] == "" {
		t.Error("the machine is taken to restrict devices")
	}
	g, err := m.New("berth", "t", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.RestrictDevices(StandardDevices()); err == nil {
		t.Error("rules that the kernel refuses are taken for applied")
	}
}
