package acl_test

import (
	"strings"
	"testing"

	"berth/acl"
)

func parse(t *testing.T, texts ...string) *acl.ACL {
	t.Helper()
	var all []*acl.Policy
	for _, text := range texts {
		p, err := acl.Parse("p.hcl", text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return acl.New(all...)
}

const teamA = `
namespace "team-a" {
  policy       = "write"
  capabilities = ["alloc-node-exec"]
  volume "db-*" {
    capabilities = ["read", "detach"]
  }
  volume "db-scratch" { policy = "write" }
  volume "db-sealed*" { policy = "deny" }
  variables {
    path "app/*"        { capabilities = ["read"] }
    path "app/shared/*" { capabilities = ["list", "write"] }
  }
}
namespace "team-*" { policy = "read" }
namespace "*"      { capabilities = ["list-jobs"] }
host_volume "data-*" { policy = "write" }
host_volume "data-ro" { policy = "read" }
node_pool "gpu" { policy = "write" }
node     { policy = "read" }
operator { policy = "write" }
plugin   { policy = "list" }
`

func TestACL_GivesWhatItsPoliciesGive(t *testing.T) {
	a := parse(t, teamA)
	for what, c := range map[string]struct{ got, want bool }{
		"the shorthand of the name":               {a.Namespace("team-a", acl.SubmitJob), true},
		"a capability beside the shorthand":       {a.Namespace("team-a", acl.AllocNodeExec), true},
		"a capability that no shorthand has":      {a.Namespace("team-a", acl.SubmitRawExec), false},
		"force of a volume is in no shorthand":    {a.Namespace("team-a", acl.CSIForceVolume), false},
		"plugins are in no shorthand":             {a.Namespace("team-a", acl.CSIRegisterPlugin), false},
		"the pattern with fewer wild characters":  {a.Namespace("team-b", acl.ReadJob), true},
		"only the closest pattern decides":        {a.Namespace("team-b", acl.SubmitJob), false},
		"the widest pattern":                      {a.Namespace("other", acl.ListJobs), true},
		"nothing else by the widest pattern":      {a.Namespace("other", acl.ReadJob), false},
		"some namespace":                          {a.AnyNamespace(acl.AllocExec), true},
		"no namespace":                            {a.AnyNamespace(acl.SubmitPrivileged), false},
		"a volume by its rule":                    {a.Volume("team-a", "db-1", acl.VolumeDetach), true},
		"a rule takes what the namespace gives":   {a.Volume("team-a", "db-1", acl.VolumeWrite), false},
		"the closest rule of volumes":             {a.Volume("team-a", "db-scratch", acl.VolumeExpand), true},
		"force needs its own name":                {a.Volume("team-a", "db-scratch", acl.VolumeForce), false},
		"a denied volume":                         {a.Volume("team-a", "db-sealed-1", acl.VolumeRead), false},
		"a volume by the namespace":               {a.Volume("team-a", "queue", acl.VolumeWrite), true},
		"a read volume of a read namespace":       {a.Volume("team-b", "queue", acl.VolumeRead), true},
		"no claim in a read namespace":            {a.Volume("team-b", "queue", acl.VolumeClaim), false},
		"a variable":                              {a.Variable("team-a", "app/x", acl.VariablesRead), true},
		"the name of a variable that may be read": {a.Variable("team-a", "app/x", acl.VariablesList), true},
		"a variable of a closer rule":             {a.Variable("team-a", "app/shared/x", acl.VariablesRead), false},
		"a variable of no rule":                   {a.Variable("team-a", "other", acl.VariablesList), false},
		"a variable of a namespace without rules": {a.Variable("team-b", "app/x", acl.VariablesRead), false},
		"a host volume":                           {a.HostVolume("data-1", acl.MountReadWrite), true},
		"to write includes to read":               {a.HostVolume("data-1", acl.MountReadOnly), true},
		"a host volume to read":                   {a.HostVolume("data-ro", acl.MountReadWrite), false},
		"no host volume":                          {a.HostVolume("etc", acl.MountReadOnly), false},
		"a node pool":                             {a.NodePool("gpu", acl.PoolDelete), true},
		"another node pool":                       {a.NodePool("cpu", acl.PoolRead), false},
		"nodes to read":                           {a.NodeRead(), true},
		"nodes to write":                          {a.NodeWrite(), false},
		"to write servers includes to read":       {a.OperatorRead(), true},
		"servers to write":                        {a.OperatorWrite(), true},
		"plugins to list":                         {a.PluginList(), true},
		"plugins to read":                         {a.PluginRead(), false},
		"agents":                                  {a.AgentRead(), false},
		"quotas":                                  {a.QuotaRead(), false},
		"sees a namespace":                        {a.SeesNamespace("other"), true},
		"management":                              {a.IsManagement(), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %t, want %t", what, c.got, c.want)
		}
	}
}

func TestACL_MergesRulesOfOnePattern(t *testing.T) {
	read := `
		namespace "a" { policy = "read" }
		node { policy = "read" }
		agent { policy = "write" }`
	write := `
		namespace "a" { capabilities = ["submit-job"] }
		node { policy = "write" }
		agent { policy = "deny" }`
	deny := `namespace "a" { policy = "deny" }`

	a := parse(t, read, write)
	if !a.Namespace("a", acl.ReadJob) || !a.Namespace("a", acl.SubmitJob) {
		t.Error("the capabilities of two policies do not add up")
	}
	if !a.NodeWrite() || a.AgentRead() {
		t.Errorf("got node write %t, want true; agent read %t, want false", a.NodeWrite(), a.AgentRead())
	}

	a = parse(t, deny, read, write)
	if a.Namespace("a", acl.ReadJob) || a.SeesNamespace("a") ||
		a.AnyNamespace(acl.ReadJob) || a.SeesAnyNamespace() {
		t.Error("a policy that denies a namespace does not deny it")
	}
	if a.Volume("a", "v", acl.VolumeRead) || a.Variable("a", "v", acl.VariablesList) {
		t.Error("a policy that denies a namespace does not deny its volumes and variables")
	}
}

func TestACL_OfNoPolicyDeniesAndManagementAllows(t *testing.T) {
	for name, c := range map[string]struct {
		acl  *acl.ACL
		want bool
	}{
		"no policy":  {acl.New(), false},
		"management": {acl.Management, true},
	} {
		a := c.acl
		for _, got := range []bool{
			a.Namespace("a", acl.ListJobs), a.AnyNamespace(acl.ListJobs), a.SeesNamespace("a"),
			a.SeesAnyNamespace(), a.AnyNodePool(acl.PoolRead),
			a.Volume("a", "v", acl.VolumeForce), a.Variable("a", "p", acl.VariablesDestroy),
			a.HostVolume("h", acl.MountReadOnly), a.NodePool("p", acl.PoolRead), a.NodeRead(), a.NodeWrite(),
			a.AgentWrite(), a.OperatorWrite(), a.QuotaWrite(), a.PluginRead(), a.IsManagement(),
		} {
			if got != c.want {
				t.Errorf("%s: got %t, want %t", name, got, c.want)
			}
		}
	}
}

// Each pattern alone decides which names it covers.
func TestACL_MatchesPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "anything", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*b", "ab", true},
		{"*b", "ba", false},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*a", "a", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"*a*", "bab", true},
		{"**", "x", true},
	} {
		a := parse(t, `namespace "`+c.pattern+`" { policy = "read" }`)
		if got := a.Namespace(c.name, acl.ReadJob); got != c.want {
			t.Errorf("pattern %q, name %q: got %t, want %t", c.pattern, c.name, got, c.want)
		}
	}
}

func TestParse_NamesEachFaultWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		``:              "the policy has no rule",
		`namespace "a"`: "p.hcl:1",
		`namespace "a" {}`: `p.hcl:1,1: namespace "a": the rule gives and denies nothing; ` +
			"expected policy, capabilities, variables or volume",
		`namespace "a" { policy = "all" }`:                          `policy "all" is unknown`,
		`namespace "a" { capabilities = ["fly"] }`:                  `capability "fly" is unknown; expected of deny, list-jobs`,
		`namespace "" { policy = "read" }`:                          "the name has 0 bytes; expected 1 to 256",
		`node { policy = "list" }`:                                  `node: policy "list" is unknown; expected read, write, deny`,
		`plugin { policy = "write" }`:                               "expected list, read, deny",
		`node {}`:                                                   "policy",
		`nodes { policy = "read" }`:                                 "nodes",
		`host_volume "x" { }`:                                       `host_volume "x": the rule gives and denies nothing`,
		"namespace \"a\" {\nvolume \"v\" { policy = \"scale\" }\n}": `volume "v": policy "scale" is unknown`,
		"namespace \"a\" {\nvariables {\npath \"p\" {}\n}\n}":       "expected capabilities",
		`{"namespace": {"a": {"policy": "every"}}}`:                 `policy "every" is unknown`,
		strings.Repeat("#", acl.MaxPolicyBytes+1):                   "65537 bytes; expected at most 65536",
		strings.Repeat(`node_pool "p" {policy="read"}`+"\n", 1001):  "1001 rules; expected at most 1000",
	} {
		_, err := acl.Parse("p.hcl", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got error %v, want %q in it", text, err, want)
		}
	}
}

func TestParse_ReadsJSON(t *testing.T) {
	a := parse(t, `{"namespace": {"a": {"policy": "read", "volume": {"v": {"policy": "write"}}}}}`)
	if !a.Namespace("a", acl.ReadJob) || !a.Volume("a", "v", acl.VolumeExpand) {
		t.Error("the JSON form of a policy gives less than its HCL form")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(teamA, "team-a")
	f.Add(`{"node": {"policy": "read"}}`, "")
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := acl.Parse("p.hcl", text)
		if err != nil {
			return
		}
		a := acl.New(p)
		if a.IsManagement() {
			t.Error("a policy gives everything")
		}
		a.Namespace(name, acl.ReadJob)
		a.Volume(name, name, acl.VolumeRead)
		a.Variable(name, name, acl.VariablesRead)
	})
}

// Of two patterns with as many characters of their own, the one that denies decides.
func TestACL_DeniesAtATie(t *testing.T) {
	a := parse(t, `
namespace "team-*" { policy = "deny" }
namespace "*-prod" { policy = "write" }
`)
	if a.Namespace("team-prod", acl.ReadJob) || !a.Namespace("web-prod", acl.ReadJob) {
		t.Error("the rule that denies does not decide, or it denies more than it matches")
	}
}

// TestACL_AllVolumes asks for the right of a caller that may learn which volumes nobody has.
func TestACL_AllVolumes(t *testing.T) {
	all := `namespace "*" { policy = "read" }`
	for rules, want := range map[string]bool{
		all: true,
		all + `
namespace "team-*" { policy = "write" }`: true,
		`namespace "team-*" { policy = "read" }`: false,
		all + `
namespace "team-a" { policy = "deny" }`: false,
		all + `
namespace "team-a" { capabilities = ["list-jobs"] }`: false,
		all + `
namespace "team-a" {
  policy = "read"
  volume "secret-*" { policy = "deny" }
}`: false,
		all + `
namespace "team-a" {
  policy = "read"
  volume "db" { capabilities = ["read", "detach"] }
}`: true,
		`plugin { policy = "read" }`: false,
	} {
		if got := parse(t, rules).AllVolumes(acl.VolumeRead); got != want {
			t.Errorf("got %t, want %t of:\n%s", got, want, rules)
		}
	}
	if !acl.Management.AllVolumes(acl.VolumeRead) || new(acl.ACL).AllVolumes(acl.VolumeRead) {
		t.Error("management sees everything, and nobody nothing")
	}
}
