package defaults

import (
	"berth/structs"
	"cmp"
	"strconv"
	"strings"
)

// providerNomad is the name of the servers in the dialect.
const providerNomad = "nomad"

// canonicalizeService sets the defaults of the service and of its checks. Only a name has the short
// placeholders of the dialect.
func canonicalizeService(s structs.OwnedService, j *structs.Job, g *structs.TaskGroup) {
	task := s.Owner
	name := j.Name + "-" + g.Name
	if task != "" {
		name += "-" + task
	}

	setDefault(&s.Name, name)

	// The short placeholders are replaced here, because they have one value for all allocations.
	s.Name = strings.NewReplacer(
		"${JOB}", j.Name,
		"${TASKGROUP}", g.Name,
		"${TASK}", cmp.Or(task, "group"),
		"${BASE}", j.Name+"-"+g.Name+"-"+cmp.Or(task, "group"),
	).Replace(s.Name)

	if s.Provider == providerNomad {
		s.Provider = structs.ServiceProviderBerth
	}

	canonicalizeConnect(s.Service, j, g)
	setDefault(&s.Provider, structs.ServiceProviderConsul)
	setDefault(&s.AddressMode, structs.AddressModeAuto)
	setDefault(&s.OnUpdate, structs.OnUpdateRequireHealthy)
	canonicalizeWeights(s.Weights)
	canonicalizeServiceIdentity(s)
	for _, c := range s.Checks {
		if c != nil {
			canonicalizeCheck(c, s)
		}
	}
}

// canonicalizeCheck completes a check from its service, which is complete.
func canonicalizeCheck(c *structs.ServiceCheck, s structs.OwnedService) {
	setDefault(&c.Name, "service: "+strconv.Quote(s.Name)+" check")
	setDefault(&c.OnUpdate, s.OnUpdate)
	if c.Type == structs.CheckHTTP {
		setDefault(&c.Protocol, "http")
		setDefault(&c.Method, "GET")
	}

	if c.Type == structs.CheckScript {
		setDefault(&c.TaskName, s.OfferedBy())
	}

	switch {
	case c.InitialStatus == "passing":
		c.InitialStatus = structs.CheckPassing
	case c.InitialStatus == "critical": // a check without a result is critical in Consul, and pending here
		c.InitialStatus = structs.CheckPending
	}

	c.SuccessBeforePassing = max(c.SuccessBeforePassing, 0)
	c.FailuresBeforeCritical = max(c.FailuresBeforeCritical, 0)
	if of := s.CheckRestart; of != nil {
		if c.CheckRestart == nil {
			c.CheckRestart = &structs.CheckRestart{}
		}

		// The service gives each field that the check leaves out.
		setDefault(&c.CheckRestart.Limit, of.Limit)
		setDefault(&c.CheckRestart.Grace, of.Grace)
		c.CheckRestart.IgnoreWarnings = c.CheckRestart.IgnoreWarnings || of.IgnoreWarnings
	}

	if c.CheckRestart != nil && c.CheckRestart.Grace == nil {
		c.CheckRestart.Grace = new(structs.DefaultCheckGrace)
	}
}

// canonicalizeWeights completes the weights of a service. nil leaves them to Consul.
func canonicalizeWeights(w *structs.ServiceWeights) {
	if w == nil {
		return
	}
	for _, n := range []*int{&w.Passing, &w.Warning} {
		if *n <= 0 { // as in the dialect
			*n = 1
		}
	}
}
