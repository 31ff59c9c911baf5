package invariant

import (
	"slices"
	"strings"
	"testing"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
)

// breach is a change of a calm fleet, and the finding of a rule. Without a finding the rule excuses it.
type breach struct {
	rule  string
	name  string
	fleet func(*schedtest.Fleet) // a change of the rows
	view  func(*View)            // a change of what the rules read
	want  string                 // in a finding; "" for none
}

// addPlugin adds a system job with the plugin of the volume.
func addPlugin(f *schedtest.Fleet) {
	f.Register(canonical(schedtest.Job("csi", structs.JobSystem, 1, func(g *structs.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode}
	})))
	f.Tick()
}

// returnPlugin places the plugin on n1, which takes nothing else.
func returnPlugin(v *View) {
	v.node("n1", func(n *structs.Node) { n.SchedulingEligibility = structs.NodeIneligible })
	v.alloc("csi", 0, newest(v), func(a *structs.Allocation) { a.NodeID = "n1" })
}

// onOneNode moves both allocations of web to n0.
func onOneNode(v *View, edit func(*structs.Allocation)) {
	for range 2 { // each one is added behind the others
		v.alloc("web", 0, func(a *structs.Allocation) { a.NodeID = "n0" }, edit)
	}
}

var always = []breach{
	{rule: "no node runs more than it has", want: "node n0: 1000", view: func(v *View) {
		onOneNode(v, func(a *structs.Allocation) { a.Resources = &structs.Resources{CPU: 500000} })
	}},
	{rule: "no node runs more than it has", name: "one waits", view: func(v *View) {
		onOneNode(v, func(a *structs.Allocation) { a.Resources = &structs.Resources{CPU: 60000} })
		first := v.ByJob[jobKey("web")][0]
		v.alloc("web", 1, func(a *structs.Allocation) { a.AwaitedAllocations = []string{first.ID} })
	}},
	{rule: "no device is given twice", want: "node n0: acme/gpu/x1 d7 is of web.g", view: func(v *View) {
		onOneNode(v, withDevice)
	}},
	{rule: "no device is given twice", name: "one ends", view: func(v *View) {
		onOneNode(v, withDevice)
		v.alloc("web", 0, stopped)
	}},
	{rule: "no port is given twice", want: "node n0: port 10.0.0.1:80 is of web.g", view: func(v *View) {
		onOneNode(v, withPort(80))
	}},
	{rule: "no port is given twice", name: "two ports", view: func(v *View) {
		onOneNode(v, withPort(80))
		v.alloc("web", 0, withPort(81))
	}},
	{rule: "no host volume has two writers", want: "host volume data has disk.g[0]", view: func(v *View) {
		v.twin("disk", 0)
	}},
	{rule: "no host volume has two writers", name: "on two nodes", view: func(v *View) {
		other := map[string]string{"n0": "n1", "n1": "n0"}
		v.twin("disk", 0, func(a *structs.Allocation) { a.NodeID = other[a.NodeID] })
	}},
	{rule: "no volume has two writers", want: "volume vol is granted to", view: func(v *View) {
		v.claim(0, alone)
		v.claim(1, alone)
	}},
	{rule: "no volume has two writers", name: "other modes", want: "volume vol is granted to",
		view: func(v *View) {
			v.claim(0, func(c *structs.CSIClaim) { c.AccessMode = structs.CSIMultiNodeReader })
		}},
	{rule: "no volume has two writers", name: "block and file system", want: "volume vol is granted to",
		view: func(v *View) {
			v.claim(0, func(c *structs.CSIClaim) { c.AttachmentMode = structs.CSIBlockDevice })
		}},
	{rule: "no volume has two writers", name: "single writer", want: "volume vol is granted to",
		view: func(v *View) {
			v.claim(0, func(c *structs.CSIClaim) { c.AccessMode = structs.CSISingleNodeSingleWriter })
			v.claim(1, func(c *structs.CSIClaim) { c.AccessMode = structs.CSISingleNodeSingleWriter })
		}},
	{rule: "no volume has two writers", name: "two nodes", want: "volume vol is granted to",
		view: func(v *View) {
			v.claim(0, onNode("n0"))
			v.claim(1, onNode("n1"))
		}},
	{rule: "no volume has two writers", name: "one node", view: func(v *View) {
		v.claim(0, onNode("n0"))
		v.claim(1, onNode("n0"))
	}},
	{rule: "no volume has two writers", name: "one waits", view: func(v *View) {
		v.claim(0, alone)
		v.claim(1, alone)
		v.claim(1, func(c *structs.CSIClaim) { c.State = structs.ClaimWaiting })
	}},
	{rule: "an allocation waits only for those that end", want: "web.g[",
		view: func(v *View) { awaitOther(v) }},
	{rule: "an allocation waits only for those that end", name: "a plan follows", view: func(v *View) {
		awaitOther(v)
		v.open("web", structs.EvalPending)
	}},
	{rule: "an allocation waits only for those that end", name: "it ends", view: func(v *View) {
		awaitOther(v)
		v.alloc("web", 0, stopped)
	}},
	{rule: "an allocation waits only for older ones", want: "waits for the newer web.g[",
		view: func(v *View) {
			awaitOther(v)
		}},
	{rule: "an allocation waits only for older ones", name: "an older one", view: func(v *View) {
		awaitOther(v)
		v.alloc("web", 0, func(a *structs.Allocation) { a.CreateIndex-- })
	}},
	{rule: "an allocation is placed where its job may run", want: "on node n1", view: func(v *View) {
		v.node("n1", func(n *structs.Node) { n.SchedulingEligibility = structs.NodeIneligible })
		v.alloc("web", 0, newest(v), func(a *structs.Allocation) { a.NodeID = "n1" })
	}},
	{rule: "an allocation is placed where its job may run", name: "another datacenter", want: "on node n1",
		view: func(v *View) {
			v.node("n1", func(n *structs.Node) { n.Datacenter = "dc2" })
			v.alloc("web", 0, newest(v), func(a *structs.Allocation) { a.NodeID = "n1" })
		}},
	{rule: "an allocation is placed where its job may run", name: "the plugin of a volume there",
		fleet: addPlugin,
		view:  func(v *View) { returnPlugin(v) }},
	{rule: "an allocation is placed where its job may run", name: "a plugin without volumes", want: "on node n1",
		fleet: addPlugin,
		view: func(v *View) {
			returnPlugin(v)
			v.Claims = nil
		}},
	{rule: "an allocation is placed where its job may run", name: "long ago", view: func(v *View) {
		v.node("n1", func(n *structs.Node) { n.SchedulingEligibility = structs.NodeIneligible })
	}},
	{rule: "only less important allocations are displaced", want: "of priority 50 displaces",
		view: func(v *View) {
			victim := v.alloc("sys", 0, stopped)
			v.alloc("web", 0, newest(v), func(a *structs.Allocation) {
				a.NodeID = victim.NodeID
				a.PreemptedAllocations = []string{victim.ID}
			})
		}},
	{rule: "the scheduler makes each plan", want: "evaluation e of job web: it has panicked",
		view: func(v *View) {
			v.Failed = []*structs.Evaluation{{ID: "e", JobID: "web", StatusDescription: "it has panicked"}}
		}},
}

var settled = []breach{
	{rule: "no evaluation stays blocked although there is capacity", want: "evaluation e of job web waits for",
		view: func(v *View) {
			v.open("web", structs.EvalBlocked, "g")
		}},
	{rule: "no evaluation stays blocked although there is capacity", name: "no capacity", view: func(v *View) {
		for id := range v.Nodes {
			v.node(id, func(n *structs.Node) { n.NodeResources = &structs.NodeResources{} })
		}
		v.open("web", structs.EvalBlocked, "g")
	}},
	{rule: "nothing is missing although there is capacity", want: "has no allocation g[", view: func(v *View) {
		v.remove(v.ByJob[jobKey("web")][1])
	}},
	{rule: "nothing is missing although there is capacity", name: "it is held", view: func(v *View) {
		v.remove(v.ByJob[jobKey("web")][1])
		v.deploy("web", structs.DeploymentPaused)
	}},
	{rule: "each node of a per-node job is served", want: "has no allocation of group g on node",
		view: func(v *View) {
			v.remove(v.ByJob[jobKey("sys")][0])
		}},
	{rule: "no claim waits for an allocation that stays", want: "volume vol: web.g", view: func(v *View) {
		waitForClaim(v)
	}},
	{rule: "no claim waits for an allocation that stays", name: "it ends", view: func(v *View) {
		waitForClaim(v)
		v.alloc("web", 0, stopped)
		v.alloc("web", 0, stopped)
	}},
	{rule: "nothing runs that no job wants", name: "more than its count", want: "has 3 of group g, and wants 2",
		view: func(v *View) { v.twin("web", 0) }},
	{rule: "nothing runs that no job wants", name: "the job is stopped", want: "web.g[",
		fleet: func(f *schedtest.Fleet) {
			schedtest.Do(f, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: f.Now()})
		}},
	{rule: "nothing runs on a node that is down", want: "on node n1", view: func(v *View) {
		v.node("n1", func(n *structs.Node) { n.Status = structs.NodeDown })
	}},
	{rule: "each failure has its next try", want: "web.g[", view: func(v *View) {
		v.alloc("web", 0, failed)
	}},
	{rule: "each failure has its next try", name: "an evaluation follows", view: func(v *View) {
		v.alloc("web", 0, failed)
		v.open("web", structs.EvalPending)
	}},
}

var calm = []breach{
	{rule: "every deployment ends", want: "job web, version 0: running", view: func(v *View) {
		v.deploy("web", structs.DeploymentRunning)
	}},
	{rule: "every deployment ends", name: "the job waits for capacity", view: func(v *View) {
		v.deploy("web", structs.DeploymentRunning)
		v.open("web", structs.EvalBlocked)
	}},
	{rule: "no evaluation is pending", want: "job web: evaluation e", view: func(v *View) {
		v.open("web", structs.EvalPending)
	}},
	{rule: "every drain ends", want: "node n0, with", view: func(v *View) { v.node("n0", drains) }},
	{rule: "every drain ends", name: "a job waits for capacity", view: func(v *View) {
		v.node("n0", drains)
		v.open("sys", structs.EvalBlocked)
	}},
	{rule: "no allocation waits", name: "one does not start", want: "web.g[", view: func(v *View) {
		v.alloc("web", 0, func(a *structs.Allocation) { a.ClientStatus = structs.AllocPending })
	}},
	{rule: "no allocation waits", name: "one does not end", want: "web.g[", view: func(v *View) {
		v.alloc("web", 0, stopped)
	}},
	{rule: "every claim is used", name: "one waits", want: "volume vol: claim of", view: func(v *View) {
		v.claim(0, func(c *structs.CSIClaim) { c.State = structs.ClaimWaiting })
	}},
	{rule: "every claim is used", name: "its allocation has ended", want: "volume vol: claim of",
		view: func(v *View) {
			v.alloc("web", 0, failed)
		}},
	{rule: "every attachment is used", want: "volume attached on node n0 is attaching", fleet: attachOne},
}

var ample = []breach{
	{rule: "no update waits for its own job", want: "job web, version 0, group g: running",
		view: func(v *View) {
			v.deploy("web", structs.DeploymentRunning)
			v.open("web", structs.EvalBlocked, "g")
		}},
}

func withDevice(a *structs.Allocation) {
	a.Devices = map[string][]*structs.AllocatedDeviceResource{
		"t": {{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"d7"}}},
	}
}

func withPort(value int) func(*structs.Allocation) {
	return func(a *structs.Allocation) {
		a.Ports = []structs.AllocatedPort{{Label: "http", HostIP: "10.0.0.1", Value: value}}
	}
}

func stopped(a *structs.Allocation) { a.DesiredStatus = structs.AllocDesiredStop }

func failed(a *structs.Allocation) { a.ClientStatus = structs.AllocFailed }

func newest(v *View) func(*structs.Allocation) {
	return func(a *structs.Allocation) { a.CreateIndex = v.Tx.Applied() }
}

// onNode makes a claim one that others of its node do not exclude.
func onNode(id string) func(*structs.CSIClaim) {
	return func(c *structs.CSIClaim) {
		c.AccessMode = structs.CSISingleNodeMultiWriter
		c.NodeID = id
	}
}

func alone(c *structs.CSIClaim) { c.AccessMode = structs.CSISingleNodeWriter }

func drains(n *structs.Node) { n.DrainStrategy = &structs.DrainStrategy{} }

// awaitOther lets the second allocation of web wait for the first one.
func awaitOther(v *View) {
	first := v.ByJob[jobKey("web")][0]
	v.alloc("web", 1, func(a *structs.Allocation) { a.AwaitedAllocations = []string{first.ID} })
}

// waitForClaim lets one claim wait for the other.
func waitForClaim(v *View) {
	v.claim(0, alone)
	v.claim(1, alone)
	v.claim(1, func(c *structs.CSIClaim) { c.State = structs.ClaimWaiting })
}

// attachOne begins an attachment, which no loop of a leader finishes.
func attachOne(f *schedtest.Fleet) {
	node := schedtest.Instance("n0")
	node.RequiresControllerPlugin = true
	controller := schedtest.Instance("n0")
	controller.Kind = structs.CSIKindController
	controller.NodeInfo = nil
	controller.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: true}
	for _, i := range []*structs.CSIPluginInstance{node, controller} {
		i.PluginID = "attaching"
		i.RequiresControllerPlugin = true
	}
	schedtest.Do(f, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:       "n0",
		Upserts:      []*structs.CSIPluginInstance{node, controller},
		WriteOptions: f.Now(),
	})
	f.Volume("attached", func(v *structs.CSIVolume) { v.PluginID = "attaching" })
	for _, a := range f.Allocs("sys") {
		if a.NodeID == "n0" {
			f.Claim(a, "attached", structs.CSISingleNodeWriter)
		}
	}
}

// Each rule finds the change that breaks it, and no rule finds anything in a calm fleet.
func TestRules_FindWhatBreaksThem(t *testing.T) {
	rules := map[string]Rule{}
	for _, r := range slices.Concat(Always, Settled, Calm, Ample) {
		rules[r.Name] = r
		if faults := r.Faults(calmFleet(t)); len(faults) > 0 {
			t.Errorf("%s: a calm fleet has the faults %q", r.Name, faults)
		}
	}
	broken := map[string]bool{}
	for _, b := range slices.Concat(always, paces, plugins, bounds, settled, calm, ample) {
		broken[b.rule] = broken[b.rule] || b.want != ""
		t.Run(b.rule+"/"+b.name, func(t *testing.T) {
			var edits []func(*schedtest.Fleet)
			if b.fleet != nil {
				edits = append(edits, b.fleet)
			}
			v := calmFleet(t, edits...)
			if b.view != nil {
				b.view(v)
			}
			faults := rules[b.rule].Faults(v)
			found := slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, b.want) })
			if b.want == "" && len(faults) > 0 || b.want != "" && !found {
				t.Errorf("it finds %q, want %q", faults, b.want)
			}
		})
	}
	for name := range rules {
		if !broken[name] {
			t.Errorf("no test breaks the rule %q", name)
		}
	}
}

// The findings of all rules of some lists name their rules.
func TestBroken_NamesTheRules(t *testing.T) {
	v := calmFleet(t, func(f *schedtest.Fleet) {
		schedtest.Do(f, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "disk", WriteOptions: f.Now()})
	})
	faults := Broken(v.Tx, Always, Settled)
	if len(faults) != 1 || !strings.HasPrefix(faults[0], "nothing runs that no job wants: disk.g[0]") {
		t.Errorf("the findings are %q", faults)
	}
}
