package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quotaVerbs are the verbs of the peer's command line for quotas.
var quotaVerbs = []string{
	"quota apply", "quota delete", "quota init", "quota inspect", "quota list", "quota status",
}

// quotaSteps is a life of a quota. EXAMPLE is the file that the command line itself writes.
var quotaSteps = []verbStep{
	{"", "quota init", "EXAMPLE", "", "", ""},
	{"", "quota apply", "EXAMPLE", "", "", ""},
	{"", "quota apply", "QUOTA", "", "", ""},
	{"", "namespace apply", "-quota calls team", "", "", "quota delete calls"},
	{"", "quota list", "", "NAME calls", "", ""},
	{"", "quota status", "calls", "calls 1000 512", "", ""},
	{"", "quota inspect", "calls", "calls 1000 512 global", "", ""},
	{"", "namespace delete", "team", "", "", ""},
	{"", "quota delete", "calls", "", "", "quota status calls"},
}

// TestCommandLines_HaveEveryVerbOfQuotas runs each verb with the peer's command line, and with berth's.
func TestCommandLines_HaveEveryVerbOfQuotas(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("BERTH_BIN")
	peerBin := os.Getenv("PEER_BIN")
	if bin == "" || peerBin == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh), and a berth binary (BERTH_BIN)")
	}
	for _, verb := range quotaVerbs {
		if !slices.ContainsFunc(quotaSteps, func(s verbStep) bool { return s.verb == verb }) {
			t.Errorf("no step runs %q", verb)
		}
	}
	known := verbsBelow(t, peerBin, "quota")
	slices.Sort(known)
	if !slices.Equal(known, quotaVerbs) {
		t.Errorf("the peer's command line has the verbs %q, want %q", known, quotaVerbs)
	}

	for name, program := range map[string]string{"the peer's": peerBin, "berth's": bin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newVerbRun(t, program, bin)
			r.cli = r.cli.as(field(r.cli.run("acl", "bootstrap"), "Secret ID"))
			dir := t.TempDir()
			file := filepath.Join(dir, "quota.hcl")
			checkNoError(t, "writing a file", os.WriteFile(file, []byte(quotaFile), 0o600))
			example := filepath.Join(dir, "example.hcl")
			r.kept["QUOTA"] = []string{file}
			r.kept["EXAMPLE"] = []string{example}
			r.run(quotaSteps[0])
			r.kept["NAME"] = []string{withoutVariables(t, example)}
			for _, s := range quotaSteps[1:] {
				r.run(s)
			}
		})
	}
}

// quotaFile is a quota with two bounds.
const quotaFile = `name = "calls"
limit {
  region = "global"
  region_limit {
    cpu    = 1000
    memory = 512
  }
}
`

// withoutVariables takes the bound on variables out of a file, which berth rejects, and returns the name of
// the quota.
func withoutVariables(t *testing.T, file string) (name string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^ *variables_limit *=.*$`).ReplaceAllString(string(b), "")
	checkNoError(t, "writing a file", os.WriteFile(file, []byte(text), 0o600))
	return strings.Trim(field(text, "name"), `"`)
}
