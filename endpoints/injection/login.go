package injection

import (
	"regexp"
	"slices"

	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/defaults"
)

// Logins are the identities of the configuration. One that is off is given to nobody.
type Logins struct {
	Vault         idtoken.LoginSettings
	ConsulTask    idtoken.LoginSettings
	ConsulService idtoken.LoginSettings
}

// Add adds the identities to a canonical job. The job stays canonical, and may be added to again without a
// further change.
func (s *Logins) Add(j *structs.Job) {
	for _, g := range j.TaskGroups {
		if g != nil {
			s.addToGroup(g)
		}
	}
	defaults.Canonicalize(j)
}

func (s *Logins) addToGroup(g *structs.TaskGroup) {
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}

		if t.Vault != nil {
			addToTask(t, structs.VaultIdentity, &s.Vault)
		}

		if t.Consul != nil || g.Consul != nil || slices.ContainsFunc(t.Templates, readsConsul) {
			addToTask(t, structs.ConsulIdentity, &s.ConsulTask)
		}
	}

	for service := range g.AllServices() {
		if service.Service == nil || !s.ConsulService.Enabled() || service.Identity != nil ||
			service.Provider != structs.ServiceProviderConsul {
			continue
		}

		// Canonicalize gives it its name.
		service.Service.Identity = identityOf("", &s.ConsulService)
	}
}

func addToTask(t *structs.Task, name string, s *idtoken.LoginSettings) {
	if s.Enabled() && structs.FindIdentity(t, name) == nil {
		t.Identities = append(slices.Clone(t.Identities), identityOf(name, s))
	}
}

func identityOf(name string, s *idtoken.LoginSettings) *structs.WorkloadIdentity {
	return &structs.WorkloadIdentity{
		Name:     name,
		Audience: slices.Clone(s.Audience),
		TTL:      s.Lifetime(),
		Env:      s.Env,
		File:     s.File,
	}
}

// consulCall finds the functions of templates that read from Consul. A word of another meaning gives a task
// an identity that it does not use.
var consulCall = regexp.MustCompile(
	`\b(services?|key|keyExists|keyExistsGet|keyOrDefault|ls|safeLs|tree|safeTree)\b`)

// readsConsul reports whether a template may read from Consul: nobody knows the text of a file here.
func readsConsul(t *structs.Template) bool {
	return t != nil && (t.SourcePath != "" || consulCall.MatchString(t.EmbeddedTmpl))
}

// CheckLogins rejects a job with a task that has no identity for the Vault of its block.
func CheckLogins(j *structs.Job) error {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.Vault != nil && structs.FindIdentity(t, structs.VaultIdentity) == nil {
				return structs.Preconditionf("job %q: group %q: task %q: vault: the task has no identity %q; "+
					"give it one in a block identity, or set vault.default_identity in the configuration of all servers", j.ID, g.Name, t.Name, structs.VaultIdentity)
			}
		}
	}
	return nil
}
