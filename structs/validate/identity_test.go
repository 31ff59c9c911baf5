package validate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

// identified returns an edit that gives the task an identity "x" for others, and changes it.
func identified(edit func(*structs.WorkloadIdentity)) func(*structs.Job) {
	return func(j *structs.Job) {
		i := &structs.WorkloadIdentity{Name: "x", Audience: []string{"a"}, File: true}
		edit(i)
		j.TaskGroups[0].Tasks[0].Identities = []*structs.WorkloadIdentity{i}
	}
}

// defaultIdentity returns an edit that changes the default identity of the task.
func defaultIdentity(edit func(*structs.WorkloadIdentity)) func(*structs.Job) {
	return func(j *structs.Job) {
		i := &structs.WorkloadIdentity{Env: true, File: true}
		edit(i)
		j.TaskGroups[0].Tasks[0].Identity = i
	}
}

func TestIdentity_NamesTheFault(t *testing.T) {
	type identity = structs.WorkloadIdentity
	listed := func(all ...*identity) func(*structs.Job) {
		return func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Identities = all }
	}
	another := func(name string) *identity { return &identity{Name: name, Audience: []string{"a"}, Env: true} }
	var many []*identity
	for n := range structs.MaxIdentities + 1 {
		many = append(many, another(fmt.Sprint("x", n)))
	}
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{"", identified(func(*identity) {})},
		{"", defaultIdentity(func(*identity) {})},
		{"", identified(func(i *identity) { i.Filepath = "${NOMAD_TASK_DIR}/x" })},
		{"", identified(func(i *identity) { i.ChangeMode = "signal" })},
		{"1 to 128 letters", identified(func(i *identity) { i.Name = "a b" })},
		{"1 to 128 letters", identified(func(i *identity) { i.Name = strings.Repeat("a", 129) })},
		{"aud is required", identified(func(i *identity) { i.Audience = nil })},
		{"an audience is empty", identified(func(i *identity) { i.Audience = []string{""} })},
		{"audiences; at most 16", identified(func(i *identity) {
			i.Audience = strings.Split(strings.Repeat("a,", structs.MaxAudiences+1), ",")
		})},
		{"for the API of the cluster alone", defaultIdentity(func(i *identity) { i.Audience = []string{"sts"} })},
		{"list others in Identities", defaultIdentity(func(i *identity) { i.Name = "x" })},
		{"ttl 59s must be at least 1m", identified(func(i *identity) { i.TTL = 59 * time.Second })},
		{"ttl -1ns must be at least", identified(func(i *identity) { i.TTL = -1 })},
		{"ttl", identified(func(i *identity) { i.TTL = structs.MaxIdentityTTL + 1 })},
		{"change_mode", identified(func(i *identity) { i.ChangeMode = "script" })},
		{`"SIGNO" is not a signal`, identified(func(i *identity) { i.ChangeMode, i.ChangeSignal = "signal", "SIGNO" })},
		{"change_signal needs", identified(func(i *identity) { i.ChangeSignal = "SIGHUP" })},
		{"use change_mode restart", identified(func(i *identity) { i.ChangeMode, i.Env = "signal", true })},
		{"filepath needs file", identified(func(i *identity) { i.File, i.Filepath = false, "local/x" })},
		{"leads out of the task's directory", identified(func(i *identity) { i.Filepath = "../x" })},
		{"that the tasks of the group share", identified(func(i *identity) { i.Filepath = "../alloc/x" })},
		{"is the socket of the API", identified(func(i *identity) { i.Filepath = "./secrets/api.sock" })},
		{"has a /dev of its own", identified(func(i *identity) { i.Filepath = "dev/x" })},
		{"after a restart only", identified(func(i *identity) { i.Filepath = "x" })},
		{"service_name is for", identified(func(i *identity) { i.ServiceName = "web" })},
		{"two identities with this name", listed(another("a"), another("a"))},
		{"is in NOMAD_TOKEN_a_b, too", listed(another("a-b"), another("a_b"))},
		{"is in /local/x, too", listed(
			&identity{Name: "a", Audience: []string{"a"}, File: true, Filepath: "local/x"},
			&identity{Name: "b", Audience: []string{"a"}, File: true, Filepath: "./local/x"})},
		{"an identity is null", listed(nil)},
		{"identities; at most 16", listed(many...)},
	} {
		err := Job(testJob(c.edit))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %.300v, want %q", err, c.want)
		}
	}
}

func TestServiceIdentity_NamesTheFault(t *testing.T) {
	of := func(edit func(*structs.Service)) func(*structs.Job) {
		return serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.Identity = &structs.WorkloadIdentity{Audience: []string{"consul.io"}}
			edit(s)
		})
	}
	for _, c := range []struct {
		want string
		edit func(*structs.Service)
	}{
		{"", func(*structs.Service) {}},
		{`provider = "consul"`, func(s *structs.Service) { s.Provider = structs.ServiceProviderBerth }},
		{"aud is required", func(s *structs.Service) { s.Identity.Audience = nil }},
		{"env, file and filepath", func(s *structs.Service) { s.Identity.Env = true }},
		{"env, file and filepath", func(s *structs.Service) { s.Identity.File = true }},
		{"change_mode is for", func(s *structs.Service) { s.Identity.ChangeMode = "restart" }},
		{"must be the name of the service", func(s *structs.Service) { s.Identity.ServiceName = "other" }},
	} {
		j := testJob(of(c.edit))
		err := Job(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %.300v, want %q", err, c.want)
		}
	}
}

// TestIdentity_DefaultsAreValid checks that the default one passes as a block of its own.
func TestIdentity_DefaultsAreValid(t *testing.T) {
	j := testJob(func(j *structs.Job) {
		j.TaskGroups[0].Tasks[0].Identities = []*structs.WorkloadIdentity{{Env: true}}
	})
	defaults.Canonicalize(j)
	if err := Job(j); err != nil {
		t.Error(err)
	}
}

// TestServiceIdentity_HasItsNameAlone has two services of one name. Their node could not tell their tokens
// apart.
func TestServiceIdentity_HasItsNameAlone(t *testing.T) {
	service := func(port, name string) *structs.Service {
		return &structs.Service{
			Name:      "web",
			PortLabel: port,
			Provider:  structs.ServiceProviderConsul,
			Identity:  &structs.WorkloadIdentity{Name: name, Audience: []string{"consul.io"}},
		}
	}
	for name, want := range map[string]string{
		"a": `another service "web" has the identity "a"`,
		"b": "",
	} {
		err := Job(testJob(func(j *structs.Job) {
			g := j.TaskGroups[0]
			g.Services = []*structs.Service{service("8080", "a"), service("8081", name)}
		}))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %.300v, want %q", name, err, want)
		}
	}
}
