package report

import (
	"maps"
	"slices"

	"berth/structs"
	"berth/structs/validate/field"
)

// AllocUpdate rejects states that neither an allocation nor a task has.
func AllocUpdate(u *structs.AllocClientUpdate) error {
	f := field.New("allocation %q", u.ID)
	statuses := []string{structs.AllocPending, structs.AllocRunning, structs.AllocComplete,
		structs.AllocFailed, structs.AllocLost}

	// "" leaves the status as it is: see state.AllocsClientUpdate.
	if u.ClientStatus != "" {
		f.CheckOneOf("ClientStatus", u.ClientStatus, statuses)
	}

	states := []string{structs.TaskPending, structs.TaskRunning, structs.TaskDead}

	// In one order, so that the same report gets the same error.
	for _, task := range slices.Sorted(maps.Keys(u.TaskStates)) {
		state := ""
		if s := u.TaskStates[task]; s != nil {
			state = s.State
		}

		f.Require(slices.Contains(states, state),
			"task %q: State %q must be %s", task, state, field.OneOf(states))
	}

	checkInstances(f, u.Services)
	return f.Err()
}

// Services checks the instances of an allocation before the node reports them.
func Services(all []*structs.ServiceInstance) error {
	f := field.New("")
	checkInstances(f, all)
	return f.Err()
}

// checkInstances checks the services that a node reports of an allocation.
func checkInstances(f field.Errors, list []*structs.ServiceInstance) {
	size := 0
	seen := map[string]bool{}
	for _, i := range field.FirstOf(f, "services", list, structs.MaxServices) {
		if i == nil {
			f.Addf("a service is null")
			continue
		}

		f := f.At("service %q", i.ServiceName)

		// A row has each instance once: see state.checkServices.
		f.Require(!seen[i.ID], "the ID %q is there twice", i.ID)
		seen[i.ID] = true
		f.Require(field.IsServiceName(i.ServiceName), "the name is not that of a service")

		// An ID has the allocation, the task, the service and the port in it.
		f.CheckString("ID", i.ID, 4*structs.MaxName)
		f.CheckString("Address", i.Address, structs.MaxName)
		f.CheckRange("Port", i.Port, field.Between(0, structs.MaxPort))
		f.CheckOneOf("Status", i.Status, []string{"", structs.CheckPending, structs.CheckPassing,
			structs.CheckWarning, structs.CheckFailing})
		for _, tag := range field.FirstOf(f, "tags", i.Tags, structs.MaxServiceTags) {
			f.CheckString("a tag", tag, structs.MaxText)
			size += len(tag)
		}

		f.CheckMeta("meta", i.Meta)
		size += structs.PairBytes(i.Meta)
	}

	f.CheckBytes("services: all tags and meta", size, 2*structs.MaxServiceBytes)
}
