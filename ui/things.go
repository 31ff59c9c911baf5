package ui

import (
	"fmt"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/show"
	"berth/api/volumes"
	"berth/structs"
	"berth/structs/cluster"
	"berth/ui/actions"
	"berth/ui/pages"
	"berth/ui/views"
)

// rowsOfThing is how many rows of a kind the view of one thing has.
const rowsOfThing = 100

// part are the options of a read of some rows of a thing.
func part() *api.Query { return &api.Query{PerPage: rowsOfThing, AllowStale: true} }

// more returns the path of the list with the rest of the rows, "" if there are no more.
func more(meta *api.Meta, path string) string {
	if meta == nil || meta.NextToken == "" {
		return ""
	}
	return path
}

// showJob shows a job, with the reasons for which it does not run as it should.
func showJob(c *call) (*content, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()
	ns := c.namespaceOf()
	client := c.client(ns)
	job, _, err := jobs.Get(ctx, client, id, nil)
	if err != nil {
		return nil, err
	}

	t := pages.Thing{Command: structs.CommandLine(ns, "job why", id), Properties: jobProperties(job)}
	t.Actions = jobActions(job, ns)
	var groups, deployments, allocs views.Table
	t.Faults = readTogether(
		reading{"why it waits", func() error {
			why, _, err := jobs.Why(ctx, client, id, nil)
			if err == nil {
				t.Why = why.Reasons
			}
			return err
		}},
		reading{"its groups", func() error {
			s, _, err := jobs.Summary(ctx, client, id, nil)
			groups = views.GroupTable(s)
			return err
		}},
		reading{"its deployments", func() error {
			all, meta, err := jobs.DeploymentsOf(ctx, client, id, false, part())
			deployments = views.DeploymentTable(all)
			deployments.More = more(meta, "")
			return err
		}},
		reading{"its allocations", func() error {
			all, meta, err := jobs.AllocationsOf(ctx, client, id, false, part())
			allocs = views.AllocTable(all)
			allocs.More = more(meta, allocList.whose("JobID", id, ns))
			return err
		}},
	)
	t.Tables = []views.Table{groups, deployments, allocs}
	return contentOf("Job "+id, pages.OneThing(t)), nil
}

func jobProperties(j *structs.Job) []pages.Property {
	return properties(
		"ID", j.ID,
		"Name", j.Name,
		"Namespace", j.Namespace,
		"Type", j.Type,
		"Priority", fmt.Sprint(j.Priority),
		"Datacenters", show.JoinComma(j.Datacenters...),
		"Node pool", j.NodePool,
		"Status", show.WithDescription(j.Status, j.StatusDescription),
		"Stopped", show.YesNo(j.Stop),
		"Version", fmt.Sprint(j.Version),
		"Parent", j.ParentID,
		"Submitted", show.Nanos(j.SubmitTime),
	)
}

// showAlloc shows an allocation with its tasks and their events, and its claims on volumes.
func showAlloc(c *call) (*content, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()
	client := c.client(c.namespaceOf())
	a, _, err := allocs.Get(ctx, client, id, nil)
	if err != nil {
		return nil, err
	}

	t := pages.Thing{
		Command: structs.CommandLine(a.Namespace, "alloc status", a.ID),
		Properties: properties(
			"ID", a.ID,
			"Name", a.Name,
			"Namespace", a.Namespace,
			"Job", a.JobID,
			"Job version", fmt.Sprint(a.JobVersion),
			"Node", a.NodeName,
			"Wanted", show.WithDescription(a.DesiredStatus, a.DesiredDescription),
			"Status", show.WithDescription(a.ClientStatus, a.ClientDescription),
			"Created", show.Nanos(a.CreateTime),
			"Changed", show.Nanos(a.ModifyTime),
			"Replaces", a.PreviousAllocation,
			"Replaced by", a.NextAllocation,
		),
	}
	t.Actions = taskLinks(a)
	if a.ClientStatus == structs.AllocRunning {
		at := actions.Target{Namespace: a.Namespace, ID: a.ID}
		t.Actions = append(t.Actions, offer("restart", at, ""), offer("stop-alloc", at, ""))
	}
	var claimed views.Table
	t.Faults = readTogether(reading{"its claims on volumes", func() error {
		all, _, err := volumes.ListClaims(ctx, c.client(a.Namespace), volumes.ClaimFilter{AllocID: a.ID}, part())
		claimed = views.ClaimTable(all)
		return err
	}})
	t.Tables = []views.Table{views.TaskTable(a.TaskStates), claimed}
	for name, s := range show.Sorted(a.TaskStates) {
		if s != nil {
			t.Tables = append(t.Tables, views.EventTable(name, s))
		}
	}
	return contentOf("Allocation "+a.Name, pages.OneThing(t)), nil
}

// showNode shows a node with its plugins, its drivers, its volumes and its allocations.
func showNode(c *call) (*content, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()
	client := c.client(structs.AllNamespaces)
	n, _, err := nodes.Get(ctx, client, id, nil)
	if err != nil {
		return nil, err
	}

	t := pages.Thing{
		Command:    structs.CommandLine("", "node status", n.ID),
		Properties: nodeProperties(&n.Node),
	}
	if n.Unaccounted {
		t.Problems = append(t.Problems, "the node "+n.WhyUnaccounted())
	}
	var used, placed views.Table
	fenceable := false
	t.Faults = readTogether(
		reading{"its fence devices", func() (err error) {
			if n.Status == structs.NodeDown {
				fenceable, err = actions.Fenceable(ctx, client, n.ID)
			}
			return err
		}},
		reading{"its volumes", func() error {
			all, meta, err := volumes.List(ctx, client, volumes.Filter{NodeID: n.ID}, part())
			used = views.VolumeTable(all)
			used.More = more(meta, Root+"volumes")
			return err
		}},
		reading{"its allocations", func() error {
			filter := allocList.filterOf("NodeID", n.ID)
			all, meta, err := allocs.List(ctx, client, &api.Query{
				PerPage:    rowsOfThing,
				AllowStale: true,
				Filter:     filter,
			})
			placed = views.AllocTable(all)
			placed.More = more(meta, allocList.whose("NodeID", n.ID, structs.AllNamespaces))
			return err
		}},
	)
	t.Actions = nodeActions(&n.Node, fenceable)
	t.Tables = []views.Table{
		views.InstanceTable("Node plugins", n.CSINodePlugins, views.OfPlugin),
		views.InstanceTable("Controller plugins", n.CSIControllerPlugins, views.OfPlugin),
		used,
		placed,
		views.DriverTable(n.Drivers),
		views.NodeEventTable(n.Events),
	}
	return contentOf("Node "+n.Name, pages.OneThing(t)), nil
}

func nodeProperties(n *structs.Node) []pages.Property {
	free := n.Available()
	return properties(
		"ID", n.ID,
		"Name", n.Name,
		"Datacenter", n.Datacenter,
		"Pool", n.NodePool,
		"Class", n.NodeClass,
		"Address", n.HTTPAddr,
		"Status", show.WithDescription(n.Status, n.StatusDescription),
		"Eligibility", n.SchedulingEligibility,
		"Drain", show.YesNo(n.Drain),
		"CPU for allocations", fmt.Sprintf("%d MHz", free.CPU),
		"Memory for allocations", fmt.Sprintf("%d MiB", free.MemoryMB),
		"Disk for allocations", fmt.Sprintf("%d MiB", free.DiskMB),
		"System", show.JoinComma(n.Attributes["os.name"], n.Attributes["kernel.version"]),
		"Version", n.Attributes["nomad.version"],
	)
}

// showPlugin shows a plugin with its instances.
func showPlugin(c *call) (*content, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()
	client := c.client(structs.AllNamespaces)
	g, _, err := volumes.GetPlugin(ctx, client, id, nil)
	if err != nil {
		return nil, err
	}

	t := pages.Thing{
		Command: structs.CommandLine("", "plugin status", id),
		Properties: properties(
			"ID", g.ID,
			"Provider", show.JoinComma(g.Provider, g.Version),
			"Has a controller", show.YesNo(g.ControllerRequired),
			"Controllers healthy", show.Count(g.ControllersHealthy, g.ControllersExpected),
			"Nodes healthy", show.Count(g.NodesHealthy, g.NodesExpected),
			"Calls in flight", show.Count(g.CallsInFlight, g.CallsInFlight+g.CallsWaiting),
			"Oldest call waits since", show.Age(g.CallsWaitSince),
		),
	}
	var used views.Table
	t.Faults = readTogether(reading{"its volumes", func() error {
		all, meta, err := volumes.List(ctx, client, volumes.Filter{PluginID: id}, part())
		used = views.VolumeTable(all)
		used.More = more(meta, volumeList.whose("PluginID", id, structs.AllNamespaces))
		return err
	}})
	t.Tables = []views.Table{
		views.InstanceTable("Controllers", g.Controllers, views.OfNode),
		views.InstanceTable("Nodes", g.Nodes, views.OfNode),
		used,
		views.AllocTable(g.Allocations),
	}
	return contentOf("Plugin "+id, pages.OneThing(t)), nil
}

// showTopology draws the servers and nodes of the cluster by their datacenters and pools.
func showTopology(c *call) (*content, error) {
	ctx, cancel := c.ctx()
	defer cancel()
	client := c.client("")

	data := pages.Cluster{}
	var servers []*cluster.AgentMember
	var leader string
	var machines []*structs.NodeListStub
	var denied error
	data.Faults = readTogether(
		reading{"the servers", func() (err error) {
			servers, err = readServers(ctx, client)
			if structs.IsKind(err, structs.KindDenied) {
				denied = err
			}
			return err
		}},
		reading{"the leader", func() (err error) {
			leader, err = operator.Leader(ctx, client)
			return err
		}},
		reading{"the nodes", func() error {
			all, meta, err := nodes.List(ctx, client, &api.Query{PerPage: maxPerPage, AllowStale: true})
			machines = all
			data.More = more(meta, Root+"nodes")
			return err
		}},
	)
	if denied != nil && len(machines) == 0 { // there is nothing to draw
		return nil, denied
	}
	data.Datacenters = views.Topology(servers, leader, machines)
	return contentOf("", pages.Topology(data)), nil
}
