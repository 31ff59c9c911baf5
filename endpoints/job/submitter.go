package job

import (
	"context"
	"slices"
	"strings"

	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
)

// checkSubmitter returns an error if the submitter of a job may not register its services in Consul.
func (j Jobs) checkSubmitter(ctx context.Context, job *structs.Job, token structs.Secret) error {
	// Servers without Consul have nobody to ask.
	if j.Consul == nil {
		return nil
	}
	return j.Consul.CheckSubmitter(ctx, token, consulServices(job))
}

// consulServices returns the names of the services that a job registers in Consul, each once.
func consulServices(job *structs.Job) []string {
	var names []string
	for _, g := range job.TaskGroups {
		if g == nil {
			continue
		}
		for s := range g.AllServices() {
			if s.Provider == structs.ServiceProviderConsul {
				names = append(names, defaults.ServiceName(job, g, s))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// holdsToken reports whether the source of a job has the token of the submitter. Each caller that may read
// the job may read its source, and the token has the rights of its owner.
func holdsToken(s *structs.JobSubmission, token structs.Secret) bool {
	texts := []string{s.Source, s.Variables}
	for name, value := range s.VariableFlags {
		texts = append(texts, name, value)
	}
	return token != "" && slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, string(token))
	})
}

// rejectRegistration returns an error while the configuration of the scheduler rejects new versions of jobs
// and dispatches.
func (j Jobs) rejectRegistration() error {
	// It is read for each request, so a change of the setting counts at once.
	if !state.SchedulerConfig(j.Store.Read()).RejectJobRegistration {
		return nil
	}
	return structs.Deniedf("the servers register no jobs now: an operator has set RejectJobRegistration; " +
		"\"berth operator scheduler set-config -reject-job-registration=false\" ends that")
}
