package injection_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/endpoints/injection"
	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// newJob returns a canonical job with a task for each way to an identity.
func newJob(edit ...func(*structs.Job)) *structs.Job {
	g := &structs.TaskGroup{Name: "g", Count: 1,
		Networks: []*structs.NetworkResource{{DynamicPorts: []structs.Port{{Label: "http"}}}},
		Services: []*structs.Service{
			{Name: "web", PortLabel: "http"},
			{Name: "own", PortLabel: "http", Identity: &structs.WorkloadIdentity{Audience: []string{"mine"}}},
			{Name: "berth", PortLabel: "http", Provider: structs.ServiceProviderBerth},
		},
	}
	for name, t := range map[string]*structs.Task{
		"vault":  {Vault: &structs.Vault{}},
		"consul": {Consul: &structs.Consul{}},
		"key":    {Templates: []*structs.Template{{EmbeddedTmpl: `{{ key "a" }}`, DestPath: "local/a"}}},
		"file":   {Templates: []*structs.Template{{SourcePath: "local/t", DestPath: "local/a"}}},
		"plain": {Templates: []*structs.Template{{EmbeddedTmpl: `{{ env "a" }} monkeys`, DestPath: "local/a"}},
			Services: []*structs.Service{{Name: "ofTask", PortLabel: "http"}}},
		"named": {Vault: &structs.Vault{}, Identities: []*structs.WorkloadIdentity{
			{Name: "vault_default", Audience: []string{"mine"}}}},
	} {
		t.Name = name
		t.Driver = "exec"
		g.Tasks = append(g.Tasks, t)
	}
	j := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{g}}
	for _, f := range edit {
		f(j)
	}
	defaults.Canonicalize(j)
	return j
}

// identities returns the identities of a job, as "workload: name audience ttl".
func identities(j *structs.Job) map[string]string {
	all := map[string]string{}
	add := func(of string, i *structs.WorkloadIdentity) {
		if i != nil {
			all[of+" "+i.Name] = strings.Join(i.Audience, ",") + " " + i.TTL.String()
		}
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			for _, i := range t.Identities {
				add(t.Name, i)
			}
		}
		for s := range g.AllServices() {
			add("service "+s.Name, s.Identity)
		}
	}
	return all
}

func TestAdd_GivesIdentitiesToWorkloadsThatNeedThem(t *testing.T) {
	settings := injection.Logins{
		Vault:         idtoken.LoginSettings{Audience: []string{"vault.io"}, TTL: 2 * time.Hour},
		ConsulTask:    idtoken.LoginSettings{Audience: []string{"consul.io"}},
		ConsulService: idtoken.LoginSettings{Audience: []string{"services"}, TTL: time.Minute},
	}
	j := newJob()
	settings.Add(j)
	want := map[string]string{
		"vault vault_default":                             "vault.io 2h0m0s",
		"consul consul_default":                           "consul.io 1h0m0s",
		"key consul_default":                              "consul.io 1h0m0s",
		"file consul_default":                             "consul.io 1h0m0s",
		"named vault_default":                             "mine 1h0m0s",
		"service web consul-service_web-http":             "services 1m0s",
		"service own consul-service_own-http":             "mine 1h0m0s",
		"service ofTask consul-service_plain-ofTask-http": "services 1m0s",
	}
	if got := identities(j); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if err := validate.Job(j); err != nil {
		t.Error(err)
	}
	if err := injection.CheckLogins(j); err != nil {
		t.Error(err)
	}

	// A job that is read and registered again does not change.
	before := identities(j)
	settings.Add(j)
	if got := identities(j); !reflect.DeepEqual(got, before) {
		t.Errorf("again: %v", got)
	}

	// The block of the group counts for all its tasks.
	j = newJob(func(j *structs.Job) { j.TaskGroups[0].Consul = &structs.Consul{} })
	settings.Add(j)
	if got := identities(j); got["plain consul_default"] == "" || got["vault consul_default"] == "" {
		t.Errorf("with the block of the group: %v", got)
	}
}

// TestAdd_ChangesNothingWithoutSettings: the nodes go on with their own tokens.
func TestAdd_ChangesNothingWithoutSettings(t *testing.T) {
	j := newJob()
	before := identities(j)
	(&injection.Logins{}).Add(j)
	if got := identities(j); !reflect.DeepEqual(got, before) {
		t.Errorf("got %v", got)
	}
	err := injection.CheckLogins(j)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "vault.default_identity") ||
		!strings.Contains(err.Error(), `task "vault"`) {
		t.Errorf("got %v", err)
	}
}
