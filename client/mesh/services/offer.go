package services

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"time"

	"berth/client/drivers/driver"
	"berth/consul"
	"berth/consul/mesh"
	"berth/internal/placeholder"
	"berth/structs"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// offer is a service that the allocation offers now.
type offer struct {
	key      string // of the service in its job
	by       string // the task that offers it, "" for the group
	owner    string // the task that has it, "" for the group
	instance structs.ServiceInstance
	checks   []*running
	inConsul *consul.Service // nil for one that the servers keep
}

// running is a check that runs.
type running struct {
	id     string
	key    string // equal for the same check with the same target
	target checkTarget
	run    *healthCheck
	// consulID is the ID of the check in Consul, "" if Consul does not have it.
	consulID string
}

// offerKey tells the services of a group apart. Their names may be equal once placeholders are replaced.
func offerKey(s structs.OwnedService) string { return s.InstanceID("", s.Owner) }

// resolve replaces the placeholders of a service and finds its address.
func (s *Set) resolve(service structs.OwnedService) (*offer, error) {
	alloc := s.Alloc()
	expand := s.Expand(service.Owner)
	o := &offer{
		key:   offerKey(service),
		by:    service.OfferedBy(),
		owner: service.Owner,
	}
	i := &o.instance
	i.ID = service.InstanceID(alloc.ID, service.Owner)
	i.ServiceName = expand(service.Name)
	// The validation of the job cannot check a name with placeholders.
	if !field.IsServiceName(i.ServiceName) {
		return nil, structs.Invalidf("service %q: its name is %q here; expected 1 to 63 letters, digits and dashes",
			structs.Cut(service.Name, structs.MaxQuoted), structs.Cut(i.ServiceName, structs.MaxQuoted))
	}

	w := where{
		mode: service.AddressMode,
		own:  expand(service.Address),
		port: expand(service.PortLabel),
		task: service.Owner,
	}
	var err error
	i.Address, i.Port, err = s.address(w)
	if err != nil {
		return nil, structs.Invalidf("service %q: %w", i.ServiceName, err)
	}

	tags, meta := labelsOf(service, alloc)
	i.Tags = placeholder.InList(tags, expand)
	i.Meta = placeholder.InMap(meta, expand)

	err = s.addChecks(o, service, w)
	if err != nil {
		return nil, err
	}

	if service.Provider == structs.ServiceProviderConsul {
		return o, s.resolveConsul(o, service, expand)
	}
	return o, nil
}

// addChecks adds the checks of a service at an address, without a start.
func (s *Set) addChecks(o *offer, service structs.OwnedService, w where) error {
	for n, c := range service.Checks {
		owner := service.Owner
		if c.Type == structs.CheckScript { // it runs in a task, also if the group has the service
			owner = c.TaskName
		}

		check, err := s.resolveCheck(o, n, w.ofCheck(c), expandCheck(c, s.Expand(owner)))
		if err != nil {
			return structs.Invalidf("service %q: check %q: %w", o.instance.ServiceName, c.Name, err)
		}

		o.checks = append(o.checks, check)
	}

	return nil
}

// labelsOf returns the tags and the meta of a service. A canary may have its own until it is promoted.
func labelsOf(service structs.OwnedService, a *structs.Allocation) (tags []string, meta map[string]string) {
	canary := a.DeploymentStatus.IsCanary()
	tags = service.Tags
	if canary && len(service.CanaryTags) > 0 {
		tags = service.CanaryTags
	}

	meta = service.Meta
	if canary && len(service.CanaryMeta) > 0 {
		meta = service.CanaryMeta
	}

	return tags, meta
}

// resolveConsul adds the service as Consul is to have it.
func (s *Set) resolveConsul(o *offer, service structs.OwnedService, expand func(string) string) error {
	if s.Consul == nil {
		return structs.Preconditionf("service %q: this node uses no Consul (consul.address)",
			o.instance.ServiceName)
	}

	// Consul has bounds of its own, and the placeholders have their values only now.
	err := validate.ConsulMeta(o.instance.Meta)
	if err != nil {
		return structs.Invalidf("service %q: %w", o.instance.ServiceName, err)
	}

	i := consul.Instance{
		ServiceInstance:   o.instance,
		EnableTagOverride: service.EnableTagOverride,
		TaggedAddresses:   placeholder.InMap(service.TaggedAddresses, expand),
		Weights:           service.Weights,
	}

	i.Connect, err = s.resolveConnect(service)
	if err != nil {
		return structs.Invalidf("service %q: %w", o.instance.ServiceName, err)
	}

	i.Of = consul.Origin{AllocID: s.Alloc().ID, Group: s.Group().Name}
	for _, c := range o.checks {
		i.Checks = append(i.Checks, consul.Check{
			ServiceCheck: c.target.Check,
			Address:      c.target.Address,
		})
	}

	registration, ids, err := i.Registration()
	if err != nil {
		return structs.Invalidf("service %q: %w", o.instance.ServiceName, err)
	}

	o.inConsul = registration
	for n, c := range o.checks {
		c.consulID = ids[n]
		// A check with another definition in Consul is another check.
		c.key += "\x00" + ids[n]
	}

	o.addSidecarCheck(service.OnUpdate)
	return nil
}

// addSidecarCheck makes the health of the allocation depend on Consul's check that the sidecar listens.
func (o *offer) addSidecarCheck(onUpdate string) {
	id := consul.SidecarCheckID(o.inConsul)
	if id == "" {
		return
	}

	// Consul runs it, so it has no address here.
	check := &structs.ServiceCheck{
		Name:     consul.SidecarCheck,
		Type:     structs.CheckTCP,
		Interval: consul.SidecarInterval,
		OnUpdate: onUpdate,
	}

	// The job numbers its checks from 0, so this number is free.
	own := checkID(o.instance.ID, len(o.checks))
	o.checks = append(o.checks, &running{
		id:       own,
		key:      own + "\x00" + id + "\x00" + onUpdate,
		target:   checkTarget{Check: check},
		consulID: id,
	})
}

// resolveConnect returns the part of a service in the service mesh, nil if it has none.
func (s *Set) resolveConnect(service structs.OwnedService) (*consul.Connect, error) {
	c := service.Connect
	r := mesh.Resolver{Ports: s.Alloc().Ports, Expand: s.Expand(service.Owner)}
	switch {
	case c == nil:
		return nil, nil
	case c.SidecarService != nil:
		sidecar, err := r.Sidecar(service.Service)
		return &consul.Connect{Sidecar: sidecar}, err
	case c.Gateway != nil:
		gateway, err := r.Gateway(service.Service)
		return &consul.Connect{Gateway: gateway}, err
	}
	return &consul.Connect{Native: c.Native}, nil
}

// resolveCheck makes a check of an offer, without a start. The placeholders of c are replaced.
func (s *Set) resolveCheck(o *offer, n int, w where, c *structs.ServiceCheck) (*running, error) {
	r := &running{
		id:     checkID(o.instance.ID, n),
		target: checkTarget{Check: c},
	}
	// The validation of the job has not seen the replaced texts.
	err := validate.ExpandedCheck(c)
	if err != nil {
		return nil, err
	}

	// Otherwise the check has the port of its service.
	if c.PortLabel != "" {
		w.port = c.PortLabel
	}

	if c.Type == structs.CheckScript {
		r.target.Exec = s.exec(c.TaskName)
	} else {
		host, port, err := s.address(w)
		if err != nil {
			return nil, err
		}

		r.target.Address = net.JoinHostPort(host, strconv.Itoa(port))
	}

	// A check with another definition is another one, and begins anew.
	definition, _ := json.Marshal(c)
	r.key = r.id + "\x00" + r.target.Address + "\x00" + string(definition)
	return r, nil
}

// exec returns a function that runs commands in a task.
func (s *Set) exec(task string) func(context.Context, *driver.ExecConfig) (*driver.ExitResult, error) {
	return func(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
		// The task may have started again since the check began.
		tasks := s.tasks(task)
		if len(tasks) == 0 {
			return nil, structs.Conflictf("task %q does not run", task)
		}
		return tasks[0].control.Exec(ctx, x)
	}
}

// healthySince returns the time since which the checks are passing that count for the health.
func (o *offer) healthySince() (since time.Time, healthy bool) {
	for _, c := range o.checks {
		rule := c.target.Check.OnUpdate
		if rule == structs.OnUpdateIgnore {
			continue
		}

		status := c.run.Status()
		from := status.Since
		switch {
		// Under this rule a warning is as good as passing.
		case rule == structs.OnUpdateIgnoreWarnings && !status.UsableSince.IsZero():
			from = status.UsableSince
		case status.Status != structs.CheckPassing:
			return since, false
		}

		if from.After(since) {
			since = from
		}
	}
	return since, true
}

// result returns the last result as the API shows it.
func (r *running) result(o *offer, allocName string) *structs.CheckResult {
	status := r.run.Status()
	out := &structs.CheckResult{
		ID:      r.id,
		Check:   r.target.Check.Name,
		Group:   allocName,
		Task:    o.owner,
		Service: o.instance.ServiceName,
		Mode:    structs.CheckHealthiness,
		Status:  status.Status,
		Output:  status.Output,
	}
	if !status.At.IsZero() {
		out.Timestamp = status.At.Unix()
	}
	return out
}
