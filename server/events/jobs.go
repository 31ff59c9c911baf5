package events

import (
	"cmp"
	"slices"

	"berth/fsm"
	"berth/structs"
	"berth/structs/event"
)

// byOthers has the types of rows that commands about other rows change: an event of the dialect then has the
// type of the command.
var byOthers = map[string]string{
	fsm.PlanApply.Name:          "PlanResult",
	fsm.EvalUpdate.Name:         "EvaluationUpdated",
	fsm.AllocsClientUpdate.Name: "AllocationUpdated",
	fsm.JobDeregister.Name:      "JobDeregistered",
}

// tagTypes has the types of the events of versions.
var tagTypes = map[string]string{
	fsm.JobTag.Name:   "JobVersionTagged",
	fsm.JobUntag.Name: "JobVersionUntagged",
}

// version has the events of the tags of a version. All else that changes a version is an event of the job.
func version(c change[structs.Job]) []Made {
	kind := tagTypes[c.command]
	if kind == "" {
		return nil
	}
	j := c.row()
	return one(c, "Job", event.Event{
		Topic:     event.Job,
		Type:      kind,
		Key:       j.ID,
		Namespace: j.Namespace,
	})
}

func job(c change[structs.Job]) []Made {
	j := c.row()
	if tagTypes[c.command] != "" {
		return nil // the version's event tells it
	}
	kind := c.typeOf("JobDeregistered", byOthers, "JobRegistered")
	if c.isGone() && c.command == fsm.Reap.Name {
		kind = "JobBatchDeregistered"
	}
	return one(c, "Job", event.Event{
		Topic:      event.Job,
		Type:       kind,
		Key:        j.ID,
		Namespace:  j.Namespace,
		FilterKeys: []string{j.ParentID},
		Reason:     j.StatusDescription,
	})
}

func evaluation(c change[structs.Evaluation]) []Made {
	e := c.row()
	return one(c, "Evaluation", event.Event{
		Topic:      event.Evaluation,
		Type:       "EvaluationUpdated",
		Key:        e.ID,
		Namespace:  e.Namespace,
		FilterKeys: []string{e.JobID, e.DeploymentID},
		Reason:     cmp.Or(e.StatusDescription, e.TriggeredBy),
	})
}

var allocTypes = map[string]string{
	fsm.PlanApply.Name:     "PlanResult",
	fsm.AllocStop.Name:     "AllocationUpdateDesiredStatus",
	fsm.AllocsMigrate.Name: "AllocationUpdateDesiredStatus",
	fsm.JobDeregister.Name: "AllocationUpdateDesiredStatus",
}

// allocation has the events of an allocation, and of the services that it offers.
func allocation(c change[structs.Allocation]) []Made {
	a := c.row()
	made := shown(c, "Allocation", event.Event{
		Topic:      event.Allocation,
		Type:       c.typeOf("AllocationUpdated", allocTypes, "AllocationUpdated"),
		Key:        a.ID,
		Namespace:  a.Namespace,
		FilterKeys: []string{a.JobID, a.DeploymentID},
		Reason:     cmp.Or(a.ClientDescription, a.DesiredDescription),
	}, func(a *structs.Allocation) any {
		form := a.WithResources()
		form.Job = nil
		return form
	})
	return append(made, services(c)...)
}

// services has the events of the services that an allocation offers, or no longer offers.
func services(c change[structs.Allocation]) (made []Made) {
	before := offered(c.before)
	now := offered(c.now)
	for _, old := range before {
		if find(now, old.ID) == nil {
			made = append(made, service(c.row(), old, nil))
		}
	}
	for _, i := range now {
		old := find(before, i.ID)
		if old == nil || !old.SameAs(i) {
			made = append(made, service(c.now, old, i))
		}
	}
	return made
}

func offered(a *structs.Allocation) []*structs.ServiceInstance {
	if a == nil || !a.Offered() {
		return nil
	}
	return a.Services
}

func find(list []*structs.ServiceInstance, id string) *structs.ServiceInstance {
	n := slices.IndexFunc(list, func(i *structs.ServiceInstance) bool { return i.ID == id })
	if n < 0 {
		return nil
	}
	return list[n]
}

// service makes the event of a service of an allocation. The datacenter is a fact about the node, which the
// row does not have, so it is empty.
func service(a *structs.Allocation, before, now *structs.ServiceInstance) Made {
	c := change[structs.ServiceInstance]{before: before, now: now}
	kind := "ServiceRegistration"
	if c.isGone() {
		kind = "ServiceDeregistration"
	}
	i := c.row()
	m := told(c, "Service", event.Event{
		Topic:      event.Service,
		Type:       kind,
		Key:        i.ID,
		Namespace:  a.Namespace,
		FilterKeys: []string{a.JobID, i.ServiceName, a.ID},
		Reason:     i.Status,
	})
	m.Row = func() any { return i.Registration(a, "") }
	return m
}

var deploymentTypes = map[string]string{
	fsm.DeploymentPromote.Name:  "DeploymentPromotion",
	fsm.DeploymentHealth.Name:   "DeploymentAllocHealth",
	fsm.AllocsClientUpdate.Name: "DeploymentAllocHealth",
	fsm.PlanApply.Name:          "PlanResult",
}

func deployment(c change[structs.Deployment]) []Made {
	d := c.row()
	const other = "DeploymentStatusUpdate"
	return one(c, "Deployment", event.Event{
		Topic:      event.Deployment,
		Type:       c.typeOf(other, deploymentTypes, other),
		Key:        d.ID,
		Namespace:  d.Namespace,
		FilterKeys: []string{d.JobID},
		Reason:     d.StatusDescription,
	})
}
