package validate

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/defaults"
)

// jobWithVault returns a job whose task has a block, as a client sends it.
func jobWithVault(v *structs.Vault) *structs.Job {
	j := sidecarJob()
	j.TaskGroups[0].Tasks[0].Vault = v
	return j
}

func TestJob_ChecksVault(t *testing.T) {
	for want, v := range map[string]structs.Vault{
		"":                        {},
		" ":                       {Role: "a.b-c_d", Namespace: "a/b/", ChangeMode: "signal"},
		"cluster \"two\"":         {Cluster: "two"},
		"role \"a/b\"":            {Role: "a/b"},
		"role \"aaa":              {Role: strings.Repeat("a", structs.MaxName+1)},
		"namespace \"../sys\"":    {Namespace: "../sys"},
		"namespace \"a\\nb\"":     {Namespace: "a\nb"},
		"change_mode \"other\"":   {ChangeMode: "other"},
		"change_signal \"SIGNO\"": {ChangeMode: "signal", ChangeSignal: "SIGNO"},
	} {
		j := jobWithVault(&v)
		defaults.Canonicalize(j)
		err := Job(j)
		if strings.TrimSpace(want) == "" && err != nil || err == nil && strings.TrimSpace(want) != "" ||
			err != nil && !strings.Contains(err.Error(), "vault: "+want) {
			t.Errorf("%+v: got %v, want %s", v, err, want)
		}
	}
}

// TestJob_ChecksConsul also reads the warning of a namespace, which Canonicalize drops.
func TestJob_ChecksConsul(t *testing.T) {
	j := sidecarJob()
	g := j.TaskGroups[0]
	g.Consul = &structs.Consul{Namespace: "prod"}
	g.Tasks[0].Consul = &structs.Consul{Cluster: "two", Namespace: "dev"}
	lines := strings.Join(JobWarnings(j), "\n")
	for _, want := range []string{`group "web": consul: namespace "prod" has no effect`,
		`group "web": task "server": consul: namespace "dev" has no effect`} {
		if !strings.Contains(lines, want) {
			t.Errorf("got %s, want %s", lines, want)
		}
	}

	defaults.Canonicalize(j)
	if g.Consul.Namespace != "" || g.Consul.Cluster != structs.DefaultLoginCluster {
		t.Errorf("got %+v", g.Consul)
	}

	err := Job(j)
	if err == nil || !strings.Contains(err.Error(), `consul: cluster "two": a node has one Consul`) {
		t.Errorf("got %v", err)
	}
}
