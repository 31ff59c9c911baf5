package taskfiles

import (
	"path"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// identityNameForm is the form of the name of an identity, which is part of a file name and of a variable.
var identityNameForm = field.Pattern(`^[A-Za-z0-9_-]{1,128}$`)

// CheckIdentities checks the identities of a task: each by itself, and that no two share a name, a variable
// or a file.
func CheckIdentities(f field.Errors, t *structs.Task) {
	if t.Identity != nil {
		checkDefaultIdentity(f, t.Identity)
	}

	listed := field.FirstOf(f, "identities", t.Identities, structs.MaxIdentities)
	f.Require(!slices.Contains(listed, nil), "an identity is null")
	seen := map[string]bool{}
	for i := range structs.TaskIdentities(&structs.Task{Identity: t.Identity, Identities: listed}) {
		f := f.At("identity %q", structs.Cut(i.Name, structs.MaxQuoted))
		f.Require(identityNameForm().MatchString(i.Name),
			"name must be 1 to 128 letters, digits, - and _")
		f.Require(!seen[i.Name], "the task has two identities with this name")
		seen[i.Name] = true
		checkIdentity(f, i)
		checkIdentityFile(f, i, t)
		f.Require(i.ServiceName == "", "service_name is for the identity of a service")

		// Two tokens in one place would overwrite each other.
		for place, used := range map[string]bool{
			structs.IdentityEnv(i):                  i.Env,
			path.Join("/", structs.IdentityPath(i)): i.File,
		} {
			f.Require(!used || !seen[place], "another identity of the task is in %s, too", place)
			seen[place] = seen[place] || used
		}
	}
}

// CheckServiceIdentity checks the identity of a service, with which the node registers it. No task gets its
// token.
func CheckServiceIdentity(f field.Errors, s *structs.Service) {
	i := s.Identity
	if i == nil {
		return
	}

	f = f.At("identity")
	f.Require(s.Provider == structs.ServiceProviderConsul, "it is for services with provider = %q",
		structs.ServiceProviderConsul)
	f.Require(!i.Env && !i.File && i.Filepath == "",
		"env, file and filepath are for the identity of a task: the node alone uses that of a service")
	f.Require(i.ChangeMode == structs.TemplateNoop,
		"change_mode is for the identity of a task: the service of a node has no process")
	f.Require(i.ServiceName == s.Name, "service_name %q must be the name of the service; leave it out",
		i.ServiceName)
	f.CheckString("name", i.Name, structs.MaxName)
	checkIdentity(f, i)
}

// checkDefaultIdentity checks the identity of the API, which each task has.
func checkDefaultIdentity(f field.Errors, i *structs.WorkloadIdentity) {
	f = f.At("identity %q", structs.Cut(i.Name, structs.MaxQuoted))
	f.Require(i.Name == structs.DefaultIdentity, "the field Identity is for the one with the name %q; "+
		"list others in Identities", structs.DefaultIdentity)
	f.Require(slices.Equal(i.Audience, []string{structs.DefaultAudience}),
		"aud: the tokens of this identity are for the API of the cluster alone; "+
			"give the identity for others a name of its own")
}

// checkIdentity checks the part that tasks and services share.
func checkIdentity(f field.Errors, i *structs.WorkloadIdentity) {
	f.Require(len(i.Audience) > 0,
		"aud is required: without it each service that trusts the cluster would accept the token")
	for _, aud := range field.FirstOf(f, "audiences", i.Audience, structs.MaxAudiences) {
		f.Require(aud != "", "aud: an audience is empty")
		f.CheckString("aud: audience", aud, structs.MaxName)
	}

	f.Require(i.TTL >= structs.MinIdentityTTL || structs.IsEndlessIdentity(i),
		"ttl %s must be at least %s", i.TTL, structs.MinIdentityTTL)
	f.CheckDuration("ttl", max(0, i.TTL), structs.MaxIdentityTTL)
	f.CheckOneOf("change_mode", i.ChangeMode,
		[]string{structs.TemplateNoop, structs.TemplateRestart, structs.TemplateSignal})
	f.Require(i.ChangeSignal == "" || i.ChangeMode == structs.TemplateSignal,
		"change_signal needs change_mode = %q", structs.TemplateSignal)
	f.Require(i.ChangeMode != structs.TemplateSignal || structs.IsSignal(i.ChangeSignal),
		"change_signal %q is not a signal such as SIGHUP", i.ChangeSignal)
}

// checkIdentityFile checks the place of the file of an identity.
func checkIdentityFile(f field.Errors, i *structs.WorkloadIdentity, t *structs.Task) {
	f.Require(i.Filepath == "" || i.File, "filepath needs file = true")
	f.Require(i.ChangeMode != structs.TemplateSignal || !i.Env,
		"env: a signal does not change the environment of a process; use change_mode restart")
	if i.Filepath == "" {
		return
	}

	checkTaskPath(f, "filepath", i.Filepath)
	clean := path.Clean(i.Filepath)
	f.Require(!strings.HasPrefix(clean, "../") && !strings.HasPrefix(clean, "alloc/") &&
		!strings.HasPrefix(clean, "${NOMAD_ALLOC_DIR}"),
		"filepath %q is in the directory that the tasks of the group share; expected a path such as secrets/x",
		i.Filepath)
	f.Require(path.Join("/", i.Filepath) != path.Join("/", structs.APISocketPath),
		"filepath %q is the socket of the API", i.Filepath)
	if t.Driver != driverExec || path.IsAbs(i.Filepath) {
		return
	}

	checkInRoot(f, i.Filepath)
	f.Require(!isTopFile(i.Filepath) || i.ChangeMode == structs.TemplateRestart,
		"filepath %q: a task of the driver exec sees a change of a file that is in no folder after a restart "+
			"only; use change_mode restart, or a folder such as local", i.Filepath)
}
