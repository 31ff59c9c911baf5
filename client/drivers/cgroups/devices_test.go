package cgroups

import (
	"os"
	"os/exec"
	"slices"
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
	out := runInGroup(t, g, `
		for f in null full zero; do
			(exec 3</dev/$f) 2>/dev/null && echo "$f r"
			(exec 3>/dev/$f) 2>/dev/null && echo "$f w"
		done; true`)
	if want := "null r\nnull w\nfull r\n"; out != want {
		t.Errorf("the process opened %q, want %q", out, want)
	}
}

// runInGroup returns the output of a shell in a group.
func runInGroup(t *testing.T, g *Group, script string) string {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0) // else Start opens it within the group
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd := exec.Command("sh", "-c", script)
	var out strings.Builder
	cmd.Stdin = null
	cmd.Stdout = &out
	cmd.Stderr = null
	startInGroup(t, cmd, g)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRuleOf_RejectsOtherFiles(t *testing.T) {
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

// A kernel or a container may reject the program that restricts devices, here because the directory is no
// cgroup. Tasks run then, and the reason is known.
func TestProbe_NamesDevicesThatAreNotRestricted(t *testing.T) {
	m := &Machine{V2: t.TempDir(), Missing: map[string]string{}}
	if err := m.Probe("berth"); err != nil {
		t.Fatal(err)
	}
	if why := m.Missing[Devices]; !strings.Contains(why, m.V2+"/berth/probe-") ||
		!strings.Contains(why, "no cgroup v2") {
		t.Errorf("the machine does not restrict devices because of %q, want the group and the cause", why)
	}
	g, err := m.New("berth", "t", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.RestrictDevices(StandardDevices()); err == nil {
		t.Error("rules that the kernel rejects are taken for applied")
	}
}

func TestMergeRules_GivesEachDeviceOneRule(t *testing.T) {
	got, err := mergeRules([]DeviceRule{
		{Major: 5, Minor: 1, Permissions: "m"},
		{Block: true, Major: 1, Minor: 3, Permissions: "r"},
		{Major: 1, Minor: 3, Permissions: "w"},
		{Major: 5, Minor: anyNumber, Permissions: "rr"},
		{Major: 1, Minor: 3, Permissions: "rw"},
		{Major: 5, Minor: 1, Permissions: "wr"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []DeviceRule{
		{Block: true, Major: 1, Minor: 3, Permissions: "r"},
		{Major: 1, Minor: 3, Permissions: "rw"},
		{Major: 5, Minor: anyNumber, Permissions: "r"},
		{Major: 5, Minor: 1, Permissions: "rwm"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the rules %v, want %v", got, want)
	}
}

// manyRules returns n rules of different devices that come before other tests' rules.
func manyRules(n int) []DeviceRule {
	var rules []DeviceRule
	for i := range n {
		rules = append(rules, DeviceRule{Minor: int64(i), Permissions: "rw"})
	}
	return rules
}

func TestMergeRules_RejectsOtherRules(t *testing.T) {
	for name, rules := range map[string][]DeviceRule{
		"too many":            manyRules(maxRules + 1),
		"no permission":       {{Major: 1, Minor: 3}},
		"another permission":  {{Major: 1, Minor: 3, Permissions: "rx"}},
		"a negative number":   {{Major: 1, Minor: -2, Permissions: "r"}},
		"a number over bound": {{Major: 1 << 31, Minor: 3, Permissions: "r"}},
	} {
		if got, err := mergeRules(rules); err == nil {
			t.Errorf("%s: got the rules %v, want an error", name, got)
		}
	}
	all := append(manyRules(maxRules), manyRules(maxRules)...)
	if got, err := mergeRules(all); err != nil || len(got) != maxRules {
		t.Errorf("%d rules of %d devices: got %d, %v", len(all), maxRules, len(got), err)
	}
}
