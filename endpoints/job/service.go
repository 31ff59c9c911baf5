package job

import (
	"cmp"
	"hash/fnv"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// Services serves ServiceRegistration. The instances of services are part of the rows of their allocations.
type Services struct{ *core.Server }

// List lists the services of the namespaces of a request, those whose names have its prefix.
func (Services) List(
	tx *state.ReadTx, req *structs.QueryRequest, resp *structs.ServiceListResponse,
) (err error) {
	// The list has a stub for each namespace, as in the dialect, so all services of one are collected before
	// the page.
	sum := serviceSum{}
	for a := range state.OfferingAllocs(tx, req.RequestNamespace()) {
		sum.add(a, req.Prefix)
	}
	space := func(s *structs.ServiceListStub) string { return s.Namespace }
	all := *req
	// The page is by namespaces, to which the prefix does not apply.
	all.Prefix = "" // the prefix is a service's
	resp.Services, err = query.PageByName(sum.stubs(), space, &all, resp)
	return err
}

// serviceSum collects the services of allocations by namespace and name. Neither map is ordered. stubs sorts
// them.
type serviceSum map[string]map[string]*structs.ServiceStub

// add adds the services of an allocation whose names have a prefix.
func (s serviceSum) add(a *structs.Allocation, prefix string) {
	for _, i := range a.Services {
		if !strings.HasPrefix(i.ServiceName, prefix) {
			continue
		}

		if s[a.Namespace] == nil {
			s[a.Namespace] = map[string]*structs.ServiceStub{}
		}

		stub := s[a.Namespace][i.ServiceName]
		if stub == nil {
			stub = &structs.ServiceStub{ServiceName: i.ServiceName, Tags: []string{}}
			s[a.Namespace][i.ServiceName] = stub
		}

		// An instance without a check counts as passing.
		stub.Instances++
		if cmp.Or(i.Status, structs.CheckPassing) == structs.CheckPassing {
			stub.Passing++
		}

		// The tags may repeat here. stubs removes that once for all instances.
		stub.Tags = append(stub.Tags, i.Tags...)
	}
}

// stubs orders the services of each namespace. PageByName orders the namespaces.
func (s serviceSum) stubs() []*structs.ServiceListStub {
	var all []*structs.ServiceListStub
	for ns, byName := range s {
		of := &structs.ServiceListStub{Namespace: ns}
		for _, stub := range byName {
			slices.Sort(stub.Tags)
			stub.Tags = slices.Compact(stub.Tags)
			of.Services = append(of.Services, stub)
		}
		slices.SortFunc(of.Services, func(a, b *structs.ServiceStub) int {
			return strings.Compare(a.ServiceName, b.ServiceName)
		})
		all = append(all, of)
	}
	return all
}

// Get lists the instances of a service, none if nothing offers it.
func (Services) Get(
	tx *state.ReadTx, req *structs.ServiceGetRequest, resp *structs.ServiceGetResponse,
) (err error) {
	named := func(i *structs.ServiceInstance) bool { return i.ServiceName == req.ServiceName }
	// A service that nothing offers is no error: a client waits for its first instance.
	rows := registrations(tx, state.AllocsByService(tx, req.RequestNamespace(), req.ServiceName), named)
	if req.Choose != "" {
		rows, err = choose(rows, req)
		if err != nil {
			return err
		}
	}
	resp.Services, err = pageInstances(rows, req, resp)
	return err
}

// Services lists what an allocation offers.
func (Allocs) Services(
	tx *state.ReadTx, req *structs.AllocGetRequest, resp *structs.ServiceGetResponse,
) (err error) {
	row := state.Alloc(tx, req.AllocID)
	if row == nil {
		return noAlloc(req.AllocID)
	}
	// One that has ended offers nothing.
	rows := registrations(tx, slices.Values([]*structs.Allocation{row}), anyInstance)
	resp.Services, err = pageInstances(rows, req, resp)
	return err
}

// Services lists what the allocations of a job offer.
func (Jobs) Services(
	tx *state.ReadTx, req *structs.JobGetRequest, resp *structs.ServiceGetResponse,
) error {
	ns := req.RequestNamespace()
	// A job is named, so an empty list would hide a wrong name.
	_, err := findJob(tx, ns, req.JobID)
	if err != nil {
		return err
	}
	rows := registrations(tx, state.LiveAllocsByJob(tx, ns, req.JobID), anyInstance)
	resp.Services, err = pageInstances(rows, req, resp)
	return err
}

func anyInstance(*structs.ServiceInstance) bool { return true }

// compareInstances orders by ID: the order of allocations changes with each placement.
func compareInstances(a, b *structs.ServiceRegistration) int { return strings.Compare(a.ID, b.ID) }

// registrations returns the instances of services that allocations offer, in the order of their IDs.
func registrations(
	tx *state.ReadTx, rows iter.Seq[*structs.Allocation], keep func(*structs.ServiceInstance) bool,
) []*structs.ServiceRegistration {
	var all []*structs.ServiceRegistration
	for a := range rows {
		// Others must not find an instance whose allocation is to stop, although it still runs.
		if !a.Offered() {
			continue
		}

		dc := ""
		// The row of the node may be deleted while its allocations remain.
		if n := state.Node(tx, a.NodeID); n != nil {
			dc = n.Datacenter
		}

		for _, i := range a.Services {
			if keep(i) {
				all = append(all, i.Registration(a, dc))
			}
		}
	}

	slices.SortFunc(all, compareInstances)
	return all
}

// instanceList lists whole instances. There is no stub of them, as in the dialect.
var instanceList = query.List[structs.ServiceRegistration, structs.ServiceRegistration]{
	Key:  func(r *structs.ServiceRegistration) []string { return []string{r.ID} },
	Stub: query.Whole[structs.ServiceRegistration],
}

// pageInstances returns a page of instances that are in the order of their IDs.
func pageInstances(
	rows []*structs.ServiceRegistration, req query.ReadRequest, resp query.ReadResponse,
) ([]*structs.ServiceRegistration, error) {
	return instanceList.Page(query.Sorted(slices.Values(rows), compareInstances, req), req, resp)
}

// choose returns the instances for "N|KEY": of the rows that the filter accepts, the N whose hash with the
// key is highest. An instance that comes or goes changes the choice for few keys.
func choose(
	rows []*structs.ServiceRegistration, req *structs.ServiceGetRequest,
) (matching []*structs.ServiceRegistration, err error) {
	count, key, ok := strings.Cut(req.Choose, "|")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || key == "" {
		return nil, structs.Invalidf("the parameter choose is %q; expected N|KEY, a number above 0 and a text",
			structs.Cut(req.Choose, structs.MaxQuoted))
	}

	err = instanceList.Each(slices.Values(rows), req.Query(), func(r *structs.ServiceRegistration) error {
		matching = append(matching, r)
		return nil
	})
	if err != nil {
		return nil, err
	}

	// Each instance has a weight of its own for the key (rendezvous hashing), so the others keep theirs when
	// it goes.
	weight := func(r *structs.ServiceRegistration) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key + "\x00" + r.ID))
		return h.Sum64()
	}

	slices.SortFunc(matching, func(a, b *structs.ServiceRegistration) int {
		// Equal hashes are possible, and must not depend on the order of the rows.
		return cmp.Or(cmp.Compare(weight(b), weight(a)), compareInstances(a, b))
	})

	chosen := matching[:min(n, len(matching))]
	// A page needs the order of IDs again.
	slices.SortFunc(chosen, compareInstances)
	return chosen, nil
}
